"""The engine of μRTS inside the JVM."""
