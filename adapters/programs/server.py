"""`ListeningVectorEnv`: games in any language that connect by WebSocket, as one vector environment."""

from __future__ import annotations

import hmac
import logging
import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from ...envs.batch.entity_batch import EntityBatch
from ...envs.errors import WorkerError, whole_number
from ...envs.spaces import EntitySpace
from ...envs.waiting import waiting_for_games
from . import protocol
from .lane import Exchange, GameStopped, Lane, SharedGame
from .protocol import TOKEN, Limits, ProtocolError
from .seats import Seats
from .server_resources import (
    COMES_BACK,
    Pace,
    Refusals,
    allow_open_files,
    host_and_port,
    is_loopback,
    quiet_logger,
)
from .training_agent import TrainingAgent
from .vector_env import QuestionVectorEnv

_log = logging.getLogger(__name__)

#: Connections without a lane that are accepted, and further ones that have sent no request.
_WAITING = 16


class ListeningVectorEnv(QuestionVectorEnv):
    """Plays the games of WebSocket connections, each in a lane; docs/protocol.md describes the messages.

    A lane without a connection is inactive. A connection that is lost in the middle of an episode truncates
    it, and its lane is free for the next one. No message can end the environment: a connection that breaks
    the protocol gets an error and is closed.

    Args:
        address: "HOST:PORT"; port 0 is any free one (see `address`).
        num_envs: how many connections may play at the same time.
        players: how many connections play in one game, each with a lane; `lane_games` says which lanes are of
            one game. Their hello messages name the game and the player. With 1 each connection is a game.
        strict: for checks. The first error of a game ends the environment, too: `reset` and `step` raise it
            as a `WorkerError`. Once no game has been connected for a second, steps do not wait for another.
        space: what the games must ask; None: the first connection declares it, and making the environment
            waits for that.
        token: what each connection must send; None: that of the environment variable ENTITIZE_TOKEN, if
            it is set.
        max_wait: see `QuestionVectorEnv`.
        limits: of messages.

    Attributes:
        address: where it listens: "127.0.0.1:7000".

    Raises:
        ValueError: the address has another form, can't be used, or is no loopback address and there is no
            token; or a number is out of its range, or of more connections than the process may open; or
            `num_envs` is no multiple of `players`.
        WorkerError: by `reset` and `step`: the server has ended, or see `strict`.
    """

    def __init__(
        self,
        address: str,
        num_envs: int = 64,
        space: EntitySpace | None = None,
        token: str | None = None,
        max_wait: float | None = 0.1,
        limits: Limits | None = None,
        players: int = 1,
        strict: bool = False,
    ) -> None:
        num_envs = whole_number("ListeningVectorEnv: num_envs", num_envs)
        players = whole_number("ListeningVectorEnv: players", players)
        if num_envs % players:
            raise ValueError(
                f"ListeningVectorEnv: num_envs: expected a multiple of the {players} players of a game, got"
                f" {num_envs}"
            )
        token = token or os.environ.get(TOKEN) or None
        listener = Listener(address, num_envs, space, token, limits or Limits(), strict)
        try:
            super().__init__(listener.declared_space(), num_envs, max_wait, None)
        except BaseException:
            listener.close()
            raise
        self.address = listener.address
        self._name = f"ListeningVectorEnv({self.address})"
        self._games = [SharedGame(self._exchange) for _ in range(num_envs // players)]
        self._lanes = [
            Lane(_name(number, players), self._games[number // players]) for number in range(num_envs)
        ]
        self.lane_games = None if players == 1 else np.arange(num_envs) // players
        # Also runs when this object is forgotten.
        self._stop = weakref.finalize(self, _stop, self._exchange, self._lanes, listener)
        self._seats = Seats(num_envs, players)
        listener.open(self._lanes, self._exchange, self._seats)

    @property
    def num_connected(self) -> int:
        """The number of lanes that have a connection now."""
        return self._seats.num_taken

    def _reset(self, seeds: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Begin with episodes that begin: games can't be made to start over.

        Games in mid-episode get legal actions, drawn uniformly; their lanes are inactive until the next one.
        """
        with self._exchange.changed:
            waiting = [lane for game in self._games for lane in game.skip()]
        for lane in waiting:
            lane.answer(None)
        reports = self._reports()
        return self._batch([report.question for report in reports]), self._info(reports)

    def close_extras(self, **kwargs: Any) -> None:
        self._stop()


def _stop(exchange: Exchange, lanes: list[Lane], listener: Listener) -> None:
    """End a waiting step, the games and the server."""
    exchange.close()
    for lane in lanes:
        lane.stop()
    listener.close()


class Listener:
    """Accept connections, check their hello messages, and give each a free lane.

    Each connection has a thread, which reads its messages and asks the questions of its game.
    """

    def __init__(
        self,
        address: str,
        num_lanes: int,
        space: EntitySpace | None,
        token: str | None,
        limits: Limits,
        strict: bool,
    ) -> None:
        host, port = host_and_port(address)
        if token is None and not is_loopback(host):
            raise ValueError(
                f"listen: {address}: without a token expected a loopback address (127.0.0.1), got another."
                f" Give a token: --token, or the environment variable {TOKEN}"
            )
        self._space, self._token, self._limits, self._strict = space, token, limits, strict
        self._problem: WorkerError | None = None  # an error that has ended a strict environment
        self._refusals = Refusals(_log)
        self._most_connections = num_lanes + _WAITING
        self._declared = threading.Event()
        self._is_open = threading.Event()
        self._is_closed = self._has_ended = False
        self._lock = threading.Lock()
        self._seats = Seats(0)
        self._lanes: list[Lane] = []
        self._exchange: Exchange | None = None
        allow_open_files(4 * (self._most_connections + _WAITING) + 128)
        try:
            self._server: Server = serve(
                self._serve_connection,
                host,
                port,
                family=socket.AF_INET6 if ":" in host else socket.AF_INET,
                process_request=self._check_request,
                create_connection=self._connection,  # type: ignore[arg-type]  # any factory will do
                max_size=limits.message_bytes,
                compression=None,  # a small message could decompress to a very large one
                close_timeout=1,
                ping_interval=None,  # games that compute for long answer no pings: see `Limits.silence`
                logger=quiet_logger(),
            )
        except OSError as error:
            raise ValueError(
                f"listen: {address}: expected a free address of this machine: {error.strerror or error}"
            ) from error
        bound = self._server.socket.getsockname()
        self.address = f"{f'[{bound[0]}]' if ':' in bound[0] else bound[0]}:{bound[1]}"
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)
        self._thread.start()

    def declared_space(self) -> EntitySpace:
        """Return the spaces, as soon as a connection has declared them.

        Raises:
            WorkerError: the server has ended, or an error has ended a strict environment.
        """
        if self._space is None:
            _log.warning(
                "listening on ws://%s: the first game that connects declares the spaces", self.address
            )
        while self._space is None:
            with waiting_for_games():
                self._declared.wait(0.5)
            if self._has_ended:
                raise self._end()
            if self._problem is not None:
                raise self._problem
        return self._space

    def open(self, lanes: list[Lane], exchange: Exchange, seats: Seats) -> None:
        """Let connections have these lanes."""
        with self._lock:
            self._lanes, self._exchange, self._seats = lanes, exchange, seats
            if self._has_ended:
                exchange.close(self._end())
            elif self._problem is not None:
                exchange.close(self._problem)
        self._is_open.set()

    def close(self) -> None:
        """Close all connections and end their threads."""
        self._is_closed = True
        self._is_open.set()
        # At the exit of the process no thread can start, and the system closes the connections.
        with suppress(RuntimeError):
            self._server.shutdown(reason="the trainer has ended")
        self._thread.join()

    def _accept(self) -> None:
        self._server.serve_forever()  # returns, without a word, where a connection can't be accepted
        with self._lock:
            self._has_ended = True
            if self._exchange is not None and not self._is_closed:
                self._exchange.close(self._end())

    def _end(self) -> WorkerError:
        return WorkerError(
            f"listen: {self.address}: expected to accept connections, got an error of the system"
        )

    # -- a connection ---------------------------------------------------------------------------------------

    def _connection(self, *arguments: Any, **options: Any) -> ServerConnection:
        """Make the connection of an accepted socket.

        Raises:
            ConnectionError: there are too many that have not sent a request; the socket is closed.
        """
        if len(self._server.handler_threads) > self._most_connections + _WAITING:
            raise ConnectionError("too many connections")
        return ServerConnection(*arguments, **options)

    def _check_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse web pages of other hosts, which could reach a loopback address through a browser."""
        origin = request.headers.get("Origin")
        if origin is not None and self._token is None and not is_loopback(urlsplit(origin).hostname or ""):
            return connection.respond(HTTPStatus.FORBIDDEN, f"origin {origin}: a token is needed\n")
        if len(self._server.handler_threads) > self._most_connections:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")
        return None

    def _serve_connection(self, connection: ServerConnection) -> None:
        """Play the game of one connection, from its hello to its end."""
        connection.socket.settimeout(self._limits.sending)
        with suppress(ConnectionClosed):
            try:
                hello, space = self._handshake(connection)
                self._is_open.wait(10)
                with self._seats.taken(hello) as lane:
                    connection.send(protocol.hello_message(space, lane))
                    self._play(connection, lane)
            except GameStopped:
                connection.close(1001, "the trainer has ended")
            except ConnectionClosed:
                self._note_leaving()
                raise
            except Exception as error:  # most often a ProtocolError
                self._fail(error)
                connection.send(protocol.error_message(error, True))
                connection.close(1008)

    def _fail(self, error: Exception) -> None:
        """Log why a connection is closed; a strict environment ends with the error instead."""
        if not self._strict:
            self._refusals.log(error)
            return
        with self._lock:
            if self._problem is None:
                self._problem = WorkerError(str(error))
                if self._exchange is not None:
                    self._exchange.close(self._problem)

    def _note_leaving(self) -> None:
        """Let the steps of a strict environment go on where no game is left, nor comes back at once."""
        if not self._strict or self._exchange is None:
            return
        time.sleep(COMES_BACK)
        if not self._seats.num_taken:
            self._exchange.leave()

    def _handshake(self, connection: ServerConnection) -> tuple[dict[str, Any], EntitySpace]:
        """Check the hello of a connection; return it, and the spaces that it agreed to.

        Raises:
            ProtocolError: there is none, or it is wrong.
        """
        try:
            message = protocol.read_message(connection.recv(10))
            protocol.check_hello(message)
        except TimeoutError:
            raise ProtocolError("hello: expected one within 10 seconds, got none") from None
        self._check_token(message.get("token"))
        return message, self._agreed_space(message.get("spaces"))

    def _check_token(self, token: Any) -> None:
        if self._token is None:
            return
        ours, theirs = (str(text).encode(errors="surrogatepass") for text in (self._token, token))
        if not (isinstance(token, str) and hmac.compare_digest(ours, theirs)):
            raise ProtocolError(f"hello: token: expected that of the trainer, got {_what(token)}")

    def _agreed_space(self, schema: Any) -> EntitySpace:
        with self._lock:
            if self._space is None:
                if schema is None:
                    raise ProtocolError("hello: spaces: expected them of the first game, got none")
                self._space = protocol.read_spaces(schema)
                self._declared.set()
                return self._space
        if schema is not None:
            protocol.check_same_spaces(self._space, schema)
        return self._space

    def _play(self, connection: ServerConnection, number: int) -> None:
        """Answer the messages of a game until its connection ends."""
        lane, space = self._lanes[number], self._space
        assert space is not None
        agent = TrainingAgent(space, lane, lane.name, np.random.default_rng())
        pace = Pace(self._limits.messages_per_second)
        errors = 0
        lane.begin()
        try:
            while True:
                message = self._receive(connection, pace)
                try:
                    self._handle(connection, agent, message)
                except (GameStopped, ConnectionClosed):
                    raise
                except Exception as error:  # a message can do no more harm than this
                    errors += 1
                    # A game reads answers to `observe` alone: another error would be read as the next answer.
                    if message["type"] != "observe" or errors >= self._limits.errors or self._strict:
                        self._fail(error)
                        raise ProtocolError(str(error)) from error
                    connection.send(protocol.error_message(error, False))
        finally:
            with suppress(GameStopped):
                if agent.is_playing:
                    agent.game_over(truncated=True)
            lane.leave()

    def _receive(self, connection: ServerConnection, pace: Pace) -> dict[str, Any]:
        try:
            text = connection.recv(min(self._limits.silence, threading.TIMEOUT_MAX))
        except TimeoutError:
            raise ProtocolError(f"expected a message within {self._limits.silence:g} seconds") from None
        pace.count()
        return protocol.read_message(text)

    def _handle(self, connection: ServerConnection, agent: TrainingAgent, message: dict[str, Any]) -> None:
        protocol.check_fields(message)
        if message["type"] == "hello":
            raise ProtocolError("type: expected observe or game_over, got a second hello")
        actions = protocol.carry_out(agent, message, self._limits)
        if actions is not None:
            connection.send(protocol.act_message(actions))


def _name(lane: int, players: int) -> str:
    return f"game {lane}" if players == 1 else f"game {lane // players}, player {lane % players}"


def _what(value: Any) -> str:
    return "none" if value is None else type(value).__name__
