"""LLVM as llvmlite's shared library has it: a target machine, and text to code.

llvmlite's Python half takes longer to import than all else that a compilation imports, and locks
every call against every other. The few functions that a kernel needs are therefore declared here,
and several threads may be in them at once. Python's lock is let go in long ones only: where other
threads are busy, it takes milliseconds to come back.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minicc.target import Target

_TEXT = POINTER(c_char_p)  # where a function leaves a text
_BRIEF: dict[str, tuple[Any, ...]] = {
    "InitializeNativeTarget": (None,),
    "InitializeNativeAsmPrinter": (None,),
    "GetDefaultTargetTriple": (None, _TEXT),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    "CreateTargetMachine": (
        *(c_void_p, c_void_p, c_char_p, c_char_p, c_char_p),
        *(c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "CopyStringRepOfTargetData": (None, c_void_p, _TEXT),
    "DisposeTargetData": (None, c_void_p),
    "ContextCreate": (c_void_p,),
    "ContextDispose": (None, c_void_p),
    "VerifyModule": (c_bool, c_void_p, _TEXT),
    "DisposeModule": (None, c_void_p),
    "DisposeString": (None, c_char_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "GetBufferStart": (c_void_p, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
}
_LONG: dict[str, tuple[Any, ...]] = {
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
}
"""Functions with the types of what they give and take."""


@cache
def _functions() -> dict[str, Any]:
    """The functions by name, after LLVM has been told of this machine's instruction set."""
    found: dict[str, Any] = {}
    path = _path()
    for signatures, library in ((_BRIEF, ctypes.PyDLL), (_LONG, ctypes.CDLL)):
        handle = library(path)
        for name, (result, *arguments) in signatures.items():
            found[name] = function = getattr(handle, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
    found["InitializeNativeTarget"]()
    found["InitializeNativeAsmPrinter"]()
    return found


def _path() -> str:
    """Where llvmlite's shared library is; ImportError where there is none."""
    from llvmlite.utils import get_library_name

    spec = find_spec("llvmlite")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "binding" / get_library_name()
        if path.exists():
            return str(path)
    raise ImportError("llvmlite's shared library is not where its package is", name="llvmlite")


def head_of(layout: str, triple: str) -> str:
    """The lines that say for which machine a module is.

    Which library functions exist is decided by the triple.
    """
    return f'target datalayout = "{layout}"\ntarget triple = "{triple}"\n'


class Machine:
    """A code generator of LLVM's for a target, to be used by one thread at a time.

    `level` is that of code generation. RuntimeError where LLVM does not know the machine.
    """

    def __init__(self, target: Target, level: int) -> None:
        call = _functions()
        triple = _told(call["GetDefaultTargetTriple"])
        problem = c_char_p()
        known = call["GetTargetFromTriple"](triple, ctypes.byref(problem))
        names = (triple, target.cpu.encode(), target.features.encode())
        modes = (b"pic", b"small", 0, 0, b"")
        self._machine = known and call["CreateTargetMachine"](known, *names, level, *modes)
        if not self._machine:
            why = _taken(problem) or f"no code generator for {triple.decode()}"
            raise RuntimeError(why)
        data = call["CreateTargetMachineData"](self._machine)
        layout = _told(call["CopyStringRepOfTargetData"], data)
        call["DisposeTargetData"](data)
        self.head = head_of(layout.decode(), triple.decode())

    def emitted(self, ir_text: str, as_object: bool) -> bytes:
        """The code of a module of LLVM IR, as an object or as text; RuntimeError says why not."""
        call = _functions()
        problem = c_char_p()
        # A context of its own: names of types and constants would pile up in the global one.
        context = call["ContextCreate"]()
        module = buffer = None
        try:
            text = (self.head + ir_text).encode()
            module = call["ParseAssembly"](context, text, ctypes.byref(problem))
            if not problem and not call["VerifyModule"](module, ctypes.byref(problem)):
                buffer = call["TargetMachineEmitToMemory"](
                    self._machine, module, int(as_object), ctypes.byref(problem)
                )
            if not buffer:
                raise RuntimeError(_taken(problem))
            size = call["GetBufferSize"](buffer)
            return ctypes.string_at(call["GetBufferStart"](buffer), size)
        finally:
            _taken(problem)
            if buffer:
                call["DisposeMemoryBuffer"](buffer)
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)


def _told(function: Any, *arguments: Any) -> bytes:
    """The text that a function leaves."""
    text = c_char_p()
    function(*arguments, ctypes.byref(text))
    found = text.value or b""
    _taken(text)
    return found


def _taken(text: c_char_p) -> str:
    """A text of the library's, which is given back to it; empty where there is none."""
    found = text.value
    if found is None:
        return ""
    _functions()["DisposeString"](text)
    text.value = None
    return found.decode(errors="replace")
