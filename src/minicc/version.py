"""The version, in a module of its own: it is part of the key of everything that is cached."""

VERSION = "0.1.0"
