"""Small programs that run inside the JVM, put together from method handles.

A call from Python into Java costs a microsecond or two, as much as a game's whole bookkeeping. So what has to
be done for every game, or for every unit of every game, is written down once as a `java.lang.invoke` method
handle, a value of the Java runtime's own library that its compiler turns into machine code; then one call
does it for all of them. No Java class of ours is needed.

Signatures in comments are written (arguments) -> result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PRIMITIVES = {
    "int": "Integer",
    "long": "Long",
    "boolean": "Boolean",
    "double": "Double",
    "void": "Void",
}


class Handles:
    """Makes and combines method handles. Types are named as in Java, with dots.

    Args:
        jpype: the module, with a JVM running.
    """

    def __init__(self, jpype: Any) -> None:
        self.jpype = jpype
        self.methods = jpype.JClass("java.lang.invoke.MethodHandles")
        self._types = jpype.JClass("java.lang.invoke.MethodType")
        self._lookup = self.methods.publicLookup()
        self._handles_array = jpype.JArray(jpype.JClass("java.lang.invoke.MethodHandle"))
        self._classes_array = jpype.JArray(jpype.JClass("java.lang.Class"))
        self._ints = jpype.JArray(jpype.JInt)

    # -- types ----------------------------------------------------------------------------------------------

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class` of that name; "int[]" is an array's."""
        if name.endswith("[]"):
            return self.methods.arrayElementGetter(self._array_class(name)).type().parameterType(0)
        if name in _PRIMITIVES:
            return self.jpype.JClass(f"java.lang.{_PRIMITIVES[name]}").TYPE
        return self.jpype.JClass(name).class_

    def _array_class(self, name: str) -> Any:
        array = self.jpype.JClass("java.lang.reflect.Array")
        return array.newInstance(self.java_class(name.removesuffix("[]")), 0).getClass()

    def signature(self, result: str, *arguments: str) -> Any:
        classes = self._classes_array([self.java_class(name) for name in arguments])
        return self._types.methodType(self.java_class(result), classes)

    # -- what there is in Java ------------------------------------------------------------------------------

    def method(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """(owner, *arguments) -> result"""
        return self._lookup.findVirtual(self.java_class(owner), name, self.signature(result, *arguments))

    def static(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """(*arguments) -> result"""
        return self._lookup.findStatic(self.java_class(owner), name, self.signature(result, *arguments))

    def constructor(self, owner: str, *arguments: str) -> Any:
        """(*arguments) -> owner"""
        return self._lookup.findConstructor(self.java_class(owner), self.signature("void", *arguments))

    def field(self, owner: str, name: str, kind: str) -> Any:
        """(owner) -> kind"""
        return self._lookup.findGetter(self.java_class(owner), name, self.java_class(kind))

    def static_field(self, owner: str, name: str, kind: str) -> tuple[Any, Any]:
        """() -> kind, and (kind) -> void"""
        where = self.java_class(owner), name, self.java_class(kind)
        return self._lookup.findStaticGetter(*where), self._lookup.findStaticSetter(*where)

    def hidden_static_setter(self, owner: str, name: str) -> Any:
        """(kind) -> void, for a static field that is not public."""
        field = self.java_class(owner).getDeclaredField(name)
        field.setAccessible(True)
        return self._lookup.unreflectSetter(field)

    def constant(self, value: int, *ignored: str) -> Any:
        """(*ignored) -> int"""
        handle = self.methods.constant(self.java_class("int"), self.jpype.JInt(value))
        return self.ignoring(handle, 0, *ignored)

    # -- combining ------------------------------------------------------------------------------------------

    def cast(self, handle: Any, result: str, *arguments: str) -> Any:
        """The same with other types, converted as Java casts."""
        return self.methods.explicitCastArguments(handle, self.signature(result, *arguments))

    def chain(self, handle: Any, *then: Any) -> Any:
        """The first one's result goes to the second, and so on."""
        for following in then:
            handle = self.methods.filterReturnValue(handle, following)
        return handle

    def ignoring(self, handle: Any, position: int, *types: str) -> Any:
        """The same with more arguments at `position`, which are not used."""
        classes = self._classes_array([self.java_class(name) for name in types])
        return self.methods.dropArguments(handle, position, classes)

    def bind(self, handle: Any, position: int, *values: Any) -> Any:
        """The same with the arguments from `position` on fixed; a Python int is a Java int."""
        integer = self.jpype.JClass("java.lang.Integer")
        objects = [integer(value) if type(value) is int else value for value in values]
        return self.methods.insertArguments(handle, position, self.jpype.JArray(self.jpype.JObject)(objects))

    def filtered(self, handle: Any, position: int, *filters: Any) -> Any:
        """The arguments from `position` on come out of `filters`, which take one argument each."""
        return self.methods.filterArguments(handle, position, self._handles_array(list(filters)))

    def collected(self, handle: Any, position: int, source: Any) -> Any:
        """The argument at `position` comes out of `source`, whose arguments take its place."""
        return self.methods.collectArguments(handle, position, source)

    def reordered(self, handle: Any, order: Sequence[int], *arguments: str) -> Any:
        """(*arguments): the handle's k-th argument is the one at `order[k]`."""
        result = handle.type().returnType()
        classes = self._classes_array([self.java_class(name) for name in arguments])
        return self.methods.permuteArguments(
            handle, self._types.methodType(result, classes), self._ints(list(order))
        )

    def sequence(self, *handles: Any) -> Any:
        """One after the other, on the same arguments; what they return is dropped."""
        done = self.dropping_result(handles[0])
        for handle in handles[1:]:
            done = self.given(self.dropping_result(handle), done)
        return done

    def dropping_result(self, handle: Any) -> Any:
        return handle.asType(handle.type().changeReturnType(self.java_class("void")))

    def given(self, handle: Any, source: Any) -> Any:
        """The first argument comes out of `source`, which is given as many of the others as it takes; a
        `source` that returns nothing is only done before.
        """
        return self.methods.foldArguments(handle, source)

    def when(self, test: Any, handle: Any, otherwise: Any = None) -> Any:
        """`handle` where `test` is true, else `otherwise` (nothing); all take the same arguments."""
        if otherwise is None:
            otherwise = self.methods.empty(handle.type())
        return self.methods.guardWithTest(test, handle, otherwise)

    def is_null(self, kind: str) -> Any:
        """(kind) -> boolean"""
        test = self.static("java.util.Objects", "isNull", "boolean", "java.lang.Object")
        return test.asType(self.signature("boolean", kind))

    def differ(self) -> Any:
        """(int, int) -> boolean"""
        compare = self.static("java.lang.Integer", "compare", "int", "int", "int")
        return self.cast(compare, "boolean", "int", "int")  # the lowest bit of -1, 0 or 1

    def for_each(self, items: Any, item: str, body: Any) -> Any:
        """(*context) -> void: `body` (item, *context) on each item of the list `items` (*context)."""
        iterator = self.chain(items, self.method("java.util.List", "iterator", "java.util.Iterator"))
        plain = body.asType(body.type().changeParameterType(0, self.java_class("java.lang.Object")))
        assert str(body.type().parameterType(0).getName()) == item
        return self.methods.iteratedLoop(iterator, None, plain)

    def interface(self, name: str, handle: Any) -> Any:
        """An object with that interface, whose one method is `handle`."""
        proxies = self.jpype.JClass("java.lang.invoke.MethodHandleProxies")
        return proxies.asInterfaceInstance(self.java_class(name), handle)

    def buffer(self, dtype: Any, *shape: int) -> tuple[Any, NDArray[Any]]:
        """A Java buffer of int32 or float64, and the NumPy array over the same memory."""
        memory = bytearray(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        order = self.jpype.JClass("java.nio.ByteOrder").nativeOrder()
        java = self.jpype.nio.convertToDirectBuffer(memory).order(order)
        java = java.asIntBuffer() if dtype == np.int32 else java.asDoubleBuffer()
        return java, np.frombuffer(memory, dtype).reshape(shape)

    def runner(self, handle: Any) -> Callable[[], None]:
        """Return a runner of `handle` () -> void; a call costs half of one with arguments."""
        return self.interface("java.lang.Runnable", handle).run


class JavaArray:
    """A Java array with one element per game; a statement that is given it gets the game's element."""

    def __init__(self, handles: Handles, kind: str, values: Sequence[Any]) -> None:
        jpype = handles.jpype
        primitives = {"int": jpype.JInt, "long": jpype.JLong}
        self.kind = kind
        self.array = jpype.JArray(primitives[kind] if kind in primitives else jpype.JClass(kind))(
            list(values)
        )
        array_class = handles.java_class(f"{kind}[]")
        #: (int) -> kind
        self.get = handles.methods.arrayElementGetter(array_class).bindTo(self.array)
        #: (int, kind) -> void
        self.set = handles.methods.arrayElementSetter(array_class).bindTo(self.array)


class GameLoop:
    """Statements that one call carries out for a range of games, one game after the other."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._statements: list[Any] = []  # (int) -> void
        #: (int, int) -> void, all of it.
        self.whole: Any = None
        #: Carries the statements out for the games from the first up to but not including the last.
        self.run: Callable[[int, int], Any]

    def call(self, handle: Any, *columns: JavaArray | None, out: JavaArray | None = None) -> None:
        """Add a statement: `handle` on the game's elements of `columns`; None stands for the game's index.

        Its result goes into `out`.
        """
        handles = self._handles
        if columns:
            identity = handles.methods.identity(handles.java_class("int"))
            getters = [identity if column is None else column.get for column in columns]
            types = [getter.type().returnType() for getter in getters]
            plain = handle.asType(
                handles._types.methodType(handle.type().returnType(), handles._classes_array(types))
            )
            statement = handles.filtered(plain, 0, *getters)
            statement = handles.reordered(statement, [0] * len(columns), "int")
        else:
            statement = handles.ignoring(handle, 0, "int")
        if out is not None:
            result = statement.asType(handles.signature(out.kind, "int"))
            statement = handles.reordered(handles.collected(out.set, 1, result), [0, 0], "int")
        self._statements.append(statement)

    def over(self, first: int, last: int) -> Any:
        """() -> void: the statements for the games from the first up to but not including the last."""
        return self._handles.bind(self.whole, 0, first, last)

    def finish(self, before: Any = None) -> None:
        """Compile the statements; `before` () -> void, where given, is done before all games."""
        handles = self._handles
        first = handles.ignoring(handles.methods.identity(handles.java_class("int")), 1, "int")
        last = handles.ignoring(handles.methods.identity(handles.java_class("int")), 0, "int")
        body = handles.ignoring(handles.sequence(*self._statements), 1, "int", "int")
        loop = handles.methods.countedLoop(first, last, None, body)  # (int, int) -> void
        if before is not None:
            loop = handles.sequence(handles.ignoring(before, 0, "int", "int"), loop)
        self.whole = loop
        whole = handles.chain(loop, handles.constant(0))
        self.run = handles.interface("java.util.function.IntBinaryOperator", whole).applyAsInt


def what_was_raised(error: Any) -> Any:
    """The exception itself, out of what Java wraps around those that an interface does not declare."""
    wrapped = str(error.getClass().getName()) == "java.lang.reflect.UndeclaredThrowableException"
    return error.getCause() if wrapped else error
