"""LLVM as llvmlite's shared library has it: a target machine, and text to code.

llvmlite's Python half takes longer to import than all else that a compilation imports, and locks
every call against every other. The few functions that a kernel needs are therefore declared here,
and several threads may be in them at once. Python's lock is let go in long ones only: where other
threads are busy, it takes milliseconds to come back.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
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
    "PrintModuleToString": (None, c_void_p, _TEXT),
    "GetNamedFunction": (c_void_p, c_void_p, c_char_p),
    "SetLinkage": (None, c_void_p, c_int),
    "CreatePipelineTuningOptions": (c_void_p,),
    "PTOSetLoopVectorization": (None, c_void_p, c_bool),
    "PTOSetSLPVectorization": (None, c_void_p, c_bool),
    "PTOSetLoopUnrolling": (None, c_void_p, c_bool),
    "PTOSetLoopInterleaving": (None, c_void_p, c_bool),
    "DisposePipelineTuningOptions": (None, c_void_p),
    "CreatePassBuilder": (c_void_p, c_void_p, c_void_p),
    "DisposePassBuilder": (None, c_void_p),
    "buildPerModuleDefaultPipeline": (c_void_p, c_void_p, c_int),
    "DisposeNewModulePassManger": (None, c_void_p),
}
_LONG: dict[str, tuple[Any, ...]] = {
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "LinkModules": (c_int, c_void_p, c_void_p, _TEXT),
    "RunNewModulePassManager": (None, c_void_p, c_void_p, c_void_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
}
"""Functions with the types of what they give and take."""
_SECOND = 2  # level of LLVM's passes
_INTERNAL = 8  # linkage of what no other module sees
_DEFINED = re.compile(r"^define [^@]*@([\w.]+)\(", re.MULTILINE)


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
        layout = _told(call["CopyStringRepOfTargetData"], data).decode()
        call["DisposeTargetData"](data)
        # which library functions exist is decided by the triple
        self.head = f'target datalayout = "{layout}"\ntarget triple = "{triple.decode()}"\n'

    def emitted(self, ir_text: str, as_object: bool) -> bytes:
        """The code of a module of LLVM IR, as an object or as text; RuntimeError says why not."""
        call = _functions()
        problem = c_char_p()
        # A context of its own: names of types and constants would pile up in the global one.
        context = call["ContextCreate"]()
        module = buffer = None
        try:
            module = self._parsed(context, ir_text)
            buffer = call["TargetMachineEmitToMemory"](
                self._machine, module, int(as_object), ctypes.byref(problem)
            )
            if not buffer:
                raise RuntimeError(_taken(problem))
            size = call["GetBufferSize"](buffer)
            return ctypes.string_at(call["GetBufferStart"](buffer), size)
        finally:
            if buffer:
                call["DisposeMemoryBuffer"](buffer)
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)

    def inlined(self, ir_text: str, within: Sequence[str]) -> str:
        """A module of LLVM IR that has become one with those that it calls, after LLVM's passes.

        They are those of the second level, without vectorisers and unrolling. RuntimeError says
        what LLVM rejects. It is given as text again, to be verified: LLVM's passes at times leave a
        use before its definition (LLVM 22), which ends the process in instruction selection.
        """
        call = _functions()
        context = call["ContextCreate"]()
        module = None
        try:
            module = self._parsed(context, ir_text)
            for text in within:
                _link(module, self._parsed(context, text), _DEFINED.findall(text))
            self._optimise(module)
            return _told(call["PrintModuleToString"], module).decode()
        finally:
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)

    def _parsed(self, context: int, ir_text: str) -> int:
        """A module of a context, which was verified."""
        call = _functions()
        problem = c_char_p()
        text = (self.head + ir_text).encode()
        module: int | None = call["ParseAssembly"](context, text, ctypes.byref(problem))
        if module and not call["VerifyModule"](module, ctypes.byref(problem)):
            _taken(problem)
            return module
        if module:
            call["DisposeModule"](module)
        raise RuntimeError(_taken(problem))

    def _optimise(self, module: int) -> None:
        """Run LLVM's passes but for those that make vectors and write loops out."""
        call = _functions()
        tuning = call["CreatePipelineTuningOptions"]()
        for what in ("LoopVectorization", "SLPVectorization", "LoopUnrolling", "LoopInterleaving"):
            call[f"PTOSet{what}"](tuning, False)
        builder = call["CreatePassBuilder"](self._machine, tuning)
        passes = call["buildPerModuleDefaultPipeline"](builder, _SECOND)
        call["RunNewModulePassManager"](passes, module, builder)
        call["DisposeNewModulePassManger"](passes)
        call["DisposePassBuilder"](builder)
        call["DisposePipelineTuningOptions"](tuning)


def _link(module: int, other: int, names: Sequence[str]) -> None:
    """Move a module into another one, which alone calls its functions then."""
    call = _functions()
    problem = c_char_p()
    if call["LinkModules"](module, other, ctypes.byref(problem)):
        raise RuntimeError(_taken(problem))
    for name in names:
        call["SetLinkage"](call["GetNamedFunction"](module, name.encode()), _INTERNAL)


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
