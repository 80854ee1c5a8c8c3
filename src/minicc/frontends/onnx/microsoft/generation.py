"""What the operators share that write text with a decoder that they hold.

The decoder is imported twice: for the prompt (or after the encoder), and as the body of a loop, for
one token at a time. A round of the loop takes the last tokens, what they ended, the sequences in
buffers of the greatest length, and the past keys and values, which grow; it runs the decoder, has
the scores processed as the inputs say, and chooses. A sequence's row is that of its beam: [batch *
beams, ...]. Where nothing is generated any more there is the token that pads, as for what ONNX
Runtime leaves as its memory was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minicc.frontends.onnx.bodies import Body, Importing
from minicc.frontends.onnx.microsoft.common import permuted, standard
from minicc.frontends.onnx.model.reader import Node
from minicc.frontends.onnx.model.tensors import ELEMENTS
from minicc.frontends.onnx.needs import HostNodeError
from minicc.frontends.onnx.ops.indexing import emit_all
from minicc.frontends.onnx.ops.movement import cut
from minicc.frontends.onnx.ops.scans import Loop, Rounds, emit_scan, emit_while
from minicc.ir import graph
from minicc.ir.affine import Dim
from minicc.ir.core import Value
from minicc.ir.types import BOOL, F32, I32, I64, DType

LOWEST = float(np.finfo(np.float32).min)


class Chosen(NamedTuple):
    """What a choice leaves: tokens and rows to go on with, whether to go on, its own states.

    `scores` are those that were chosen by.
    """

    tokens: Value
    rows: Value | None
    alive: Value
    states: tuple[Value, ...]
    scores: Value


class Search:
    """A node under way; the subclasses choose tokens."""

    def __init__(self, importer: Importing, node: Node, names: str) -> None:
        self.importer, self.node, self.ctx = importer, node, importer.ctx
        given = [importer.value(n, node.name) if n else None for n in node.inputs]
        self.inputs: dict[str, Value | None] = dict.fromkeys(names.split())
        self.inputs.update(zip(self.inputs, given, strict=False))
        self.given = given
        self.stand()
        if not self.ctx.hosting:
            raise HostNodeError("MC0227", f"{node.op}: it runs on the host", where=node.name)
        self.pad, self.end = (node.integer(f"{n}_token_id", -1) for n in ("pad", "eos"))
        kind = node.integer("model_type", 0)
        if kind not in (0, 1, 2):
            raise self.ctx.unsupported(
                f"model_type {kind}", "use a model like GPT-2, T5 or Whisper"
            )
        self.encodes, self.listens = kind > 0, kind == 2
        self.decoder = Body(importer, node, None, "decoder")
        if self.inputs["ids"] is None or self.inputs["most"] is None:
            raise self.ctx.wrong("its input input_ids or max_length is missing")
        self.most = self.count("most")
        penalty = self.number("repetition", 1)
        known = self.ctx.array(penalty)
        self.penalty = None if known is not None and known == 1 else penalty
        self.seen: list[Value] = []  # which words the sequences have, where that costs
        self.beams: Dim = 1
        self.batch, self.start, *_ = self.value("ids").type.shape
        tokens = self.inputs.get("decoder_ids") if self.listens else None
        if self.encodes and tokens is None:
            tokens = self.filled(node.integer("decoder_start_token_id", -1), I32, self.batch, 1)
        self.prompt = self.value("ids") if tokens is None else tokens
        self.begun = self.prompt.type.shape[1]  # tokens that stand at first
        if isinstance(self.most, int) and isinstance(self.begun, int) and self.most <= self.begun:
            raise self.ctx.wrong(f"max_length is {self.most}, and the prompt has {self.begun}")

    def stand(self) -> None:
        """Go back to the node, after others were imported."""
        domain = self.node.op.rpartition(".")[0]
        self.ctx.stand_at(self.node, self.given, self.importer.model.opsets.get(domain, 1))

    # emitting

    def value(self, name: str) -> Value:
        """An input that is there."""
        found = self.inputs[name]
        assert found is not None
        return found

    def __call__(self, op: str, *operands: Any, **attributes: Any) -> Value:
        """The result of an op of the graph; numbers become constants like the first operand."""
        values = [v for v in operands if isinstance(v, Value)]
        like = next((v for v in values if v.type.dtype is not BOOL), values[0])
        made = [v if isinstance(v, Value) else self.ctx.scalar(v, like) for v in operands]
        return self.ctx.emit(getattr(graph, op), *made, **attributes)

    def size(self, dim: Dim) -> Value:
        """An extent as a number of the graph."""
        return self.ctx.extent(dim, I64)

    def standard(self, op: str, *operands: Value, **attributes: Any) -> Value:
        """What an operator of ONNX gives."""
        return standard(self.ctx, self.node, op, *operands, **attributes)

    def count(self, name: str) -> Dim:
        """An input of one integer as an extent; that of an op on the host if data decide it."""
        value, ctx = self.value(name), self.ctx
        if ctx.array(value) is not None:
            return int(ctx.known(value, name).reshape(()))
        limit = ctx.cast(ctx.reshape(value, ()), I64)
        names = [f"{self.node.name}/{name}/{k}" for k in range(4)]
        parts = (ctx.constant(np.array(0)), limit, ctx.constant(np.array(1)))
        self.importer.values.update(zip(names, parts, strict=False))
        decisive = set(self.importer.decisive)
        self.importer.node(Node("Range", names[3], tuple(names[:3]), (names[3],), {}))
        self.importer.decisive = decisive  # one program serves all counts
        self.stand()
        found: Dim = self.importer.value(names[3], names[3]).type.shape[0]
        return found

    def number(self, name: str, default: float) -> Value:
        """An input of one float, or its default."""
        value = self.inputs[name]
        if value is None:
            return self.ctx.scalar(default, F32)
        return self.ctx.cast(self.ctx.reshape(value, ()), F32)

    def line(self, count: Dim, element: DType = I64, *, rank: int = 2) -> Value:
        """The numbers from 0 on along the last of so many axes."""
        shape = (*(1,) * (rank - 1), count)
        return self.ctx.emit(graph.Iota, shape=shape, axis=rank - 1, dtype=element)

    def filled(self, number: float, element: DType, *shape: Dim) -> Value:
        """A tensor of one number."""
        return self.ctx.emit(graph.Broadcast, self.ctx.scalar(number, element), shape=shape)

    def repeated(self, x: Value) -> Value:
        """A row of each batch as one of each of its beams."""
        if self.beams == 1:
            return x
        batch, *rest = x.type.shape
        one = self.ctx.reshape(x, (batch, 1, *rest))
        all_ = self.ctx.emit(graph.Broadcast, one, shape=(batch, self.beams, *rest))
        return self.ctx.reshape(all_, (batch * self.beams, *rest))

    def rows(self, x: Value, index: Value) -> Value:
        """Rows of a tensor, one for each index."""
        return self("Gather", x, index, axis=0)

    def top(self, x: Value, k: Dim) -> tuple[Value, Value]:
        """The greatest floats of each row with their places; a loop finds as many as data say."""
        if isinstance(k, int):
            best, index = emit_all(self.ctx, graph.TopK, x, axis=1, k=k)
            return best, index
        rows, length = x.type.shape
        place = self.line(length)

        def each(
            states: Sequence[Value], slices: Sequence[Value]
        ) -> tuple[Sequence[Value], Sequence[Value]]:
            value, at = states
            later = self("And", self("Eq", x, value), self("Lt", at, place))
            left = self("Or", self("Lt", x, value), later)
            best = self("Select", left, x, -np.inf)
            best = self("Reduce", best, axes=(1,), combine="max", keepdims=True)
            there = self("And", left, self("Eq", x, best))
            index = self("Select", there, place, self.size(length - 1))
            index = self("Reduce", index, axes=(1,), combine="min", keepdims=True)
            return (best, index), (best, index)

        begin = [self.filled(np.inf, F32, rows, 1), self.filled(-1, I64, rows, 1)]
        _, _, *found = emit_scan(self.ctx, Loop(k, begin, []), each)
        best, index = (self.ctx.reshape(permuted(self.ctx, v, (1, 0, 2)), (rows, k)) for v in found)
        return best, index

    def any_of(self, flags: Value) -> Value:
        """Whether any of these flags is set."""
        count = self("Reduce", self.ctx.cast(flags, I32), axes=(0, 1), combine="add")
        return self("Lt", self.ctx.scalar(0, I32), count)

    def put(self, buffer: Value, tokens: Value, length: Value) -> Value:
        """The sequences with another token each."""
        return self("Select", self("Eq", self.line(self.most), length), tokens, buffer)

    # running the decoder

    def run(self) -> tuple[Value, ...]:
        """The outputs of the node."""
        logits, past, fixed = self.encoded() if self.encodes else self.prompted()
        room = self.line(self.most)
        near = self.ctx.reshape(self("Min", room, self.size(self.begun - 1)), (self.most,))
        begun = self.size(self.begun)
        filled = self("Gather", self.repeated(self.prompt), near, axis=1)
        buffer = self("Select", self("Lt", room, begun), filled, self.pad)
        if self.penalty is not None:
            words = self.last_logits(logits).type.shape[1]
            self.seen = [self.among(self("Lt", room, begun), buffer, words)]
        first = self.chosen(logits, buffer, begun, self.begin(), first=True)
        width, marks = len(first.states), len(self.seen)
        past = self.moved(past, first.rows)
        states = [first.tokens, *first.states, *self.marked(first), *past]

        def each(
            number: Value, goes_on: Value, states: Sequence[Value]
        ) -> tuple[Value, Sequence[Value], Sequence[Value]]:
            tokens, own, past = states[0], states[1 : 1 + width], states[1 + width + marks :]
            self.seen = list(states[1 + width : 1 + width + marks])
            length = self("Add", number, self.size(self.begun + 1))
            logits, new = self.next(tokens, own[0], number, past, fixed)
            found = self.chosen(logits, own[0], length, own[1:], first=False)
            rows = [found.scores] if len(self.node.outputs) > 2 else []
            new = self.moved(new, found.rows)
            return found.alive, [found.tokens, *found.states, *self.marked(found), *new], rows

        limit = self.size(self.most - self.begun - 1)
        loop = Rounds(limit, first.alive, states)
        made = emit_while(self.ctx, self.importer.types, loop, each)
        return self.ended(made[1 : 1 + width], first.scores, made[len(states) :])

    def marked(self, found: Chosen) -> list[Value]:
        """Which words the sequences have after a choice, where words that they have cost."""
        made: list[Value] = []
        for seen in self.seen:
            own = seen if found.rows is None else self.rows(seen, found.rows)
            new = self("Eq", self.line(seen.type.shape[1], I32), found.tokens)
            made.append(self("Or", own, new))
        return made

    def shaped(self, name: str) -> Any:
        """The declared type of an input of the decoder's graph."""
        inputs = {i.name: i.type.tensor_type for i in self.node.attributes["decoder"].input}
        return inputs[name]

    def empty_past(self, names: Sequence[str], *front: Dim) -> list[Value]:
        """What those inputs of the decoder hold before any token; `front` are the first extents."""
        past: list[Value] = []
        for name in names:
            declared = self.shaped(name)
            heads, size = (declared.shape.dim[len(front) + k].dim_value for k in (0, 2))
            past.append(self.filled(0, ELEMENTS[declared.elem_type], *front, heads, 0, size))
        return past

    def prompted(self) -> tuple[Value, list[Value], list[Value]]:
        """The logits after the prompt, the past, and what all rounds need: mask and lengths."""
        ids = self.repeated(self.value("ids"))
        real = self("Ne", ids, self.pad)
        counted = self.ctx.cast(real, I32)
        place = self("Sub", self.standard("CumSum", counted, self.ctx.constant(np.array(1))), 1)
        place = self("Select", real, place, 0)
        given = self.inputs["mask"]
        mask = counted if given is None else self.repeated(given)
        length = self("Reduce", counted, axes=(1,), combine="add", keepdims=True)
        past = self.empty_past(self.decoder.inputs[3:], 2, ids.type.shape[0])
        first = self.decoder
        if "init_decoder" in self.node.attributes:
            first = Body(self.importer, self.node, None, "init_decoder")
        logits, *new = first.emit([ids, place, mask, *past])
        self.stand()
        return logits, new, [mask, length]

    def encoded(self) -> tuple[Value, list[Value], list[Value]]:
        """The logits of the first token, the decoder's past, and what the encoder left for it."""
        ctx, ids, mask = self.ctx, self.value("ids"), self.inputs["mask"]
        if mask is None and not self.listens:
            real = ctx.cast(self("Ne", ids, self.pad), I32)
            # pads after a token are shown
            seen = self.standard("CumSum", real, ctx.constant(np.array(1)))
            mask = ctx.cast(self("Lt", self.ctx.scalar(0, I32), seen), I32)
        shown = [] if self.listens or mask is None else [mask]
        encoder = Body(self.importer, self.node, None, "encoder")
        found = encoder.emit([ids, *shown, self.prompt][: len(encoder.inputs)])
        self.stand()
        layers = len(self.decoder.graph.outputs) - 1
        shown = [self.repeated(v) for v in shown]
        if self.listens or len(encoder.inputs) > 2:
            logits, hidden, *rest = [self.repeated(v) for v in found]
            past, cross = rest[:layers], rest[layers:]
            with_hidden = len(self.decoder.inputs) == 2 + len(shown) + len(rest)
            return logits, past, [*shown, *([hidden] if with_hidden else []), *cross]
        cross = [self.repeated(v) for v in found]
        rows = self.batch * self.beams
        past = self.empty_past(self.decoder.inputs[2 : 2 + layers], rows)
        logits, *new = self.decoder.emit([self.repeated(self.prompt), *shown, *past, *cross])
        self.stand()
        return logits, new, [*shown, *cross]

    def next(
        self,
        tokens: Value,
        buffer: Value,
        number: Value,
        past: Sequence[Value],
        fixed: Sequence[Value],
    ) -> tuple[Value, list[Value]]:
        """The logits and the past after another token of each sequence."""
        if self.encodes:
            # the mask and the encoder's states stand before the past, its keys and values after it
            before = len(self.decoder.inputs) - 1 - 2 * len(past)
            taken = self.shaped(self.decoder.inputs[0]).shape.dim[1]
            if taken.dim_value != 1:  # it takes all tokens so far
                line = self.line(past[0].type.shape[2] + 1, rank=1)
                tokens = self("Gather", buffer, line, axis=1)
            given = [tokens, *fixed[:before], *past, *fixed[before:]]
            logits, *new = self.decoder.emit(given)
        else:
            mask, length = fixed
            total = past[0].type.shape[3] + 1
            line = self.line(total)
            prompt = self.size(self.start)
            near = self.ctx.reshape(self("Min", line, self("Sub", prompt, 1)), (total,))
            shown = self("Select", self("Lt", line, prompt), self("Gather", mask, near, axis=1), 1)
            place = self("Add", length, self.ctx.cast(number, I32))
            logits, *new = self.decoder.emit([tokens, place, shown, *past])
        self.stand()
        return logits, new

    def moved(self, past: Sequence[Value], rows: Value | None) -> list[Value]:
        """What of the past belongs to the rows that go on; all of it where these are all."""
        if rows is None:
            return list(past)
        return [self("Gather", x, rows, axis=0 if self.encodes else 1) for x in past]

    # scores

    def processed(self, scores: Value, buffer: Value, length: Value, first: bool) -> Value:
        """Scores after what the inputs have against tokens."""
        words = scores.type.shape[1]
        for seen in self.seen:
            assert self.penalty is not None
            worse = self("Select", self("Lt", scores, 0.0), self("Mul", scores, self.penalty),
                         self("Div", scores, self.penalty))  # fmt: skip
            scores = self("Select", seen, worse, scores)
        size = self.node.integer("no_repeat_ngram_size", 0)
        if size > 0:
            scores = self("Select", self.repeating(buffer, length, size, words), LOWEST, scores)
        for name in ("words", "first_words")[: 2 if first else 1]:
            given = self.inputs[name]
            if given is not None:
                one = self.ctx.reshape(given, (1, words)) if given.type.rank < 2 else given
                mask = one if name == "words" else self.repeated(one)
                scores = self("Select", self("Eq", mask, 0), LOWEST, scores)
        least = self.inputs["least"]
        if least is not None:
            short = self("Lt", length, self.ctx.cast(self.ctx.reshape(least, ()), I64))
            scores = self("Select", self("And", short, self("Eq", self.line(words), self.end)),
                          LOWEST, scores)  # fmt: skip
        return scores

    def among(self, where: Value, tokens: Value, words: Dim) -> Value:
        """Which words are among those tokens of each row that are `where`."""
        index = self("Select", where, self.ctx.cast(tokens, I64), self.size(words))
        none = self.filled(0, I32, tokens.type.shape[0], words + 1)
        marks = self.filled(1, I32, *index.type.shape)
        found = self("ScatterElements", none, index, marks, axis=1)
        return self("Lt", self.ctx.scalar(0, I32), cut(self.ctx, found, {1: (0, words, 1)}))

    def repeating(self, buffer: Value, length: Value, size: int, words: Dim) -> Value:
        """Which words would end a run of so many tokens that the sequence has already."""
        line, last = self.line(self.most, rank=1), self.size(self.most - 1)

        def at(index: Value) -> Value:
            return self("Gather", buffer, self("Min", self("Max", index, 0), last), axis=1)

        early = self("Le", self.ctx.reshape(line, (1, self.most)), self("Sub", length, size))
        offsets = self.line(size - 1)
        runs = at(self("Add", self.ctx.reshape(line, (self.most, 1)), offsets))
        newest = at(self("Add", offsets, self("Sub", length, size - 1)))
        same = self("Reduce", self("Eq", runs, newest), axes=(2,), combine="and")
        alike = self("And", early, same)
        return self.among(alike, at(self("Add", line, size - 1)), words)

    def last_logits(self, logits: Value) -> Value:
        """What the decoder says of the newest token: [rows, words]."""
        _, steps, words = logits.type.shape
        one = self("Gather", logits, self.size(steps - 1), axis=1)
        wanted = self.node.integer("vocab_size", -1)
        if wanted > 0 and wanted != words:
            one = cut(self.ctx, one, {1: (0, wanted, 1)})
        return self.ctx.cast(one, F32)

    # what the subclasses do

    def begin(self) -> tuple[Value, ...]:
        """The states of the choice before any."""
        raise NotImplementedError

    def chosen(
        self, logits: Value, buffer: Value, length: Value, states: Sequence[Value], first: bool
    ) -> Chosen:
        """Choose tokens, which go to `length` in the buffer; the first state is the new buffer."""
        raise NotImplementedError

    def ended(
        self, states: Sequence[Value], first: Value, rows: Sequence[Value]
    ) -> tuple[Value, ...]:
        """The node's outputs, of the last states and the scores of the first and all rounds."""
        raise NotImplementedError
