"""The texts that lines are made of; holes are names in braces.

Holes: `a` an array, `v` one of a row, `M` of rows and columns, `F`, `I`, `B`, `C` of floats,
integers, truth values, complex numbers, `R`, `D`, `T`, `U` of records, dates, times and texts; `z`
a number or an array, `s` a number; `n` a Python int, `k` a small one, `x` an axis, `d` a type, `j`
an index, `c` a condition, `o` an operator, `l` a list.
"""

from __future__ import annotations

# What only moves elements, or whose rounding is small beside the largest operand: operands may be
# rounded already.
MOVES = """
{a}[{j}]; {a}[{j}]; {a}[{j}]; {a}[{j}]; {a}[{j}]; {a}.T; {a}.copy(); {a}.reshape(-1); {a}.ravel()
{a}.reshape({a}.shape[::-1]); {a}[None]; {a}[..., None]; {a}[:, None]; np.diagonal({M}); {a}.mT
np.broadcast_to({a}, (2,) + {a}.shape); np.swapaxes({a}, 0, -1); np.moveaxis({a}, 0, -1)
np.squeeze({a}); np.atleast_2d({a}); np.concatenate([{a}, {a}], axis={x}); np.stack([{a}, {a}])
np.hstack([{a}, {a}]); np.vstack([{a}, {a}]); np.roll({a}, {k}); np.roll({a}, {k}, axis={x})
np.flip({a}, {x}); np.tile({a}, 2); np.repeat({a}, 2, axis={x}); np.where({B}, {z}, {z})
np.where({c}, {z}, {z}); {a}.astype({d}); np.array([{z}, {z}]); np.zeros_like({a}); np.eye({n})
np.zeros({a}.shape, {d}); np.full({a}.shape, {s}); np.ones({n}); np.arange({n}); {a}.flatten()
np.arange({n}, dtype={d}); np.take({a}, [0, -1], axis={x}); np.triu({M}); np.tril({M}, {k})
np.pad({a}, 1); np.rot90({M}); np.asarray({a}); np.ascontiguousarray({a}); {a}.real; {C}.imag
{a}.conj(); np.diag({v}); np.diag({M}); np.expand_dims({a}, {x}); np.array({a}); np.fliplr({M})
np.append({a}, {z}); np.delete({a}, 0); np.insert({v}, 1, {s}); np.column_stack([{v}, {v}])
{a}[{B}]; {a}[{I}]; {v}[np.array([0, -1, 0])]; {M}[[0, -1], [0, 0]]; {a}[np.newaxis, ...]
np.asfortranarray({a}); np.full_like({a}, {s}); np.array({l}); np.split({a}, 2)[{k}]
np.array_split({a}, 2)[1]; np.copy({a}); {a}.squeeze(); {a}.transpose(); {a}.swapaxes(0, -1)
{a}.reshape({a}.shape + (1,)); {a}.reshape(2, -1); np.ravel({a}); {a}.ravel(order="F")
np.reshape({a}, -1, order="F"); {a}.diagonal(); np.compress({B}, {a}); {a}.take([0, 0, -1])
{l}[{k}]; {l}[0]; np.stack({l}); np.concatenate({l}); np.block([{a}, {a}]); np.dstack([{a}, {a}])
np.broadcast_arrays({a}, {a})[0] + 0; np.identity({n}, {d}); np.resize({a}, (2, 2)); np.flipud({a})
np.extract({B}, {a}); np.ones_like({a}, {d}); np.array({z}, {d}); np.asarray({z}); +{a}
np.meshgrid({v}, {v})[{k}]; np.take_along_axis({a}, {I}, {x})
np.lib.stride_tricks.sliding_window_view({v}, 2); np.empty_like({a}).shape; {a}.item(0)
{a}.flat[:1]; {a}.tolist(); list({a}); {a}.view(); np.nan_to_num({a}); np.linspace(0, 1, 5) * {z}
np.einsum("ij->ji", {M}); np.einsum("ii->i", {M}[:len({M}.T), :len({M})])
np.select([{B}], [{z}], {s}); np.atleast_3d({a})
np.take({a}, {I} % 9, mode="wrap"); np.take({a}, {n}, axis={x}, mode="clip"); np.tile({a}, (2, 1))
{M}[np.ix_([0, -1], [0])]; {a}[np.nonzero({a})]; np.r_[{v}, {s}]; np.c_[{v}, {v}]
np.concatenate([{a}.ravel(), {v}]); np.concatenate([{a}, {a}])[1:]; np.choose({B} * 1, [{z}, {z}])
np.rollaxis({a}, -1); {a}[..., ::-1]; np.array(list(zip({v}, {v}))); np.trim_zeros({v})
[]; [{a}]; [{s}]; np.array([{z} for i in range(11)]); [{a}[{j}] for i in range(12)]
np.stack([{a} * i for i in range(9)]); [(i, {s}) for i in range(10)]; np.vstack([{v}] * 3)
np.array([r for r in {a}]); np.array([[{s} for j in range(9)] for i in range(10)])
[r * 2 for r in {l}]; np.concatenate([{v} + i for i in range(9)])
np.unstack({a})[0]; np.concat([{a}, {a}]); np.matrix_transpose({M}); np.indices({M}.shape)[0]
np.fromfunction(lambda i, j: i + j, {M}.shape); np.meshgrid({v}, {v}, indexing="ij")[{k}]
np.roll({M}, (1, -1), (0, 1)); np.pad({a}, 1, mode="edge"); np.pad({v}, 1, mode="reflect")
np.pad({v}, (1, 2), constant_values={s}); np.pad({M}, ((0, 1), (2, 0)), mode="wrap")
np.block([[{M}, {M}], [{M}, {M}]]); np.einsum("...->...", {a}); np.rot90({M}, {k}); {l}[::-1]
np.piecewise({v}, [{v} > 0], [{s}, lambda q: q]); np.array([*{v}, {s}]); {a} if {c} else {a}
kw({a}, k={s}); kw({a}, **{"k": {s}}); rest({a}, {s}, {s}); rest(*[{a}, {s}], last={s})
Pair({a}, {s}); Pair({a}, {s}).both(); replace(Pair({a}, {s}), left={a}); Pair({a}, 1).left
np.lib.stride_tricks.sliding_window_view({M}, (2, 1)); {a}[:, ::-1]; {a}[::-1, ..., ::-1]
np.apply_along_axis(np.flip, 0, {a}); dict(a={a}, b={s})["a"]; np.mgrid[:2, :3][{k}]
"""
LINEAR = """
{z} + {z}; {z} - {z}; {z} * {z}; {z} + {z}; {z} - {z}; {z} * {z}; -{a}; abs({a}); np.add({z}, {z})
np.maximum({z}, {z}); np.minimum({z}, {z}); {a}.sum(); {a}.sum(axis={x}); np.fmax({a}, {z})
{a}.sum(axis={x}, keepdims=True); np.sum({a}, dtype={d}); {a}.mean(); {a}.mean(axis={x})
np.mean({a}, axis={x}, keepdims=True); {a}.max(); {a}.min(axis={x}); np.max({a}, axis={x})
{a} @ {a}; {M} @ {v}; {M}.T @ {M}; np.dot({a}, {a}); np.outer({v}, {v}); np.cumsum({a})
np.cumsum({a}, axis={x}); np.trace({M}); np.einsum("ij,j->i", {M}, {v}); np.ptp({a})
np.einsum("ij,kj->ik", {M}, {M}); np.clip({a}, {s}, {s}); {a}.clip({s}, 3); np.diff({a})
np.sum({a}, where={B}); np.add.reduce({a}, axis={x}); np.inner({a}, {a})
np.tensordot({M}, {M}, 1); np.average({a}, axis={x}); np.subtract({z}, {z}); np.multiply({z}, {z})
np.vdot({v}, {v}); sum({a}); max({s}, {s}); min({s}, {s}); {a}.sum(axis=None)
{a}.sum(axis=(0, -1)); np.add({z}, {z}, where={B}, out={a}.copy()); g({a}, {z}); g({a})
(lambda q: q + {s})({a}); {s} * 2 + {s}; {a} * G; {a} + H[0]; np.kron({v}, {v})
np.cross({v}, {v}); np.convolve({v}, {v}); np.gradient({v}); np.nansum({a}); np.amax({a})
np.vecdot({v}, {v}); np.add.outer({v}, {v}); np.add.accumulate({a}); np.subtract.outer({v}, {v})
np.maximum.accumulate({v}); np.mean({a}, where={B}); {a}.min(initial={s})
sum({s} * i for i in range(12)); sum({v}[i % 2] + i for i in range(9)); sum(r for r in {a})
sum([{a} - i for i in range(10)]); sum(r * q for r, q in zip({v}, {v}))
np.max({a}, where={B}, initial={s}); np.ediff1d({v}); {a}.trace(); np.add.reduceat({v}, [0, 1])
np.linalg.multi_dot([{M}, {M}, {v}])
np.add({z}, {z}, dtype={d}); np.multiply.outer({v}, {v}); np.cumsum({v}, dtype={d})
np.sum({a}, axis={x}, keepdims=True, where={B}); np.polyval([1, 2], {a}); {v} @ {M}; {M} @ {M}.T
np.matmul({M}, {v}, dtype={d}); np.add.reduce({a}, axis=None, keepdims=True); np.nanmean({a})
np.max({a}, axis=(0, -1), keepdims=True); np.logical_and.reduce({B}, axis={x}, keepdims=True)
np.einsum("ij,jk,kl->il", {M}, {M}, {M}); np.einsum("ij,ij->", {M}, {M}); np.einsum("ij->j", {M})
np.subtract.reduce({a}); np.subtract.accumulate({v}); np.add.reduceat({a}, [0, 0], axis={x})
np.minimum.outer({v}, {v}); np.add.reduce({a}, axis={x}, initial={s}, where={B})
np.correlate({v}, {v}); np.nancumsum({a}); np.nanmin({a}); np.diff({a}, n=2, axis={x})
np.diff({v}, prepend={s}); np.cumulative_sum({v}); np.apply_along_axis(np.sum, 0, {a})
np.einsum("i,j,k->ijk", {v}, {v}, {v}); {M}.T @ {M}.T; {M}[::-1] @ {M}.T; {M} @ {M}[:, ::-1]
np.maximum({M} @ {M}, 0) + {z}; ({M} @ {v}).sum(); np.einsum("ij,jk->ki", {M}, {M})
np.maximum.reduceat({v}, [0, 1, 0]); np.linalg.matrix_power({M}, 2); np.trapezoid({v})
np.add.outer({a}, {v}); np.logical_or.accumulate({B}); np.minimum.accumulate({a}, axis={x})
"""
# What may make much of a small difference: operands have to be exact.
EXACT = """
{z} {o} {z}; {z} {o} {z}; {z} == {z}; {z} != {z}; {z} / {z}; {z} // {z}; {z} % {z}; {a} ** 2
{a} ** {z}; {z} ** {z}; {a} & {z}; {a} | {z}; {a} ^ {z}; ~{a}; {a} << 1; {a} >> {k}
np.logical_and({a}, {a}); np.logical_not({a}); np.floor({a}); np.ceil({a}); np.round({a}, 1)
np.trunc({a}); np.sign({a}); np.isnan({a}); np.isfinite({a}); {a}.argmax(); {a}.argmin(axis={x})
np.argsort({a}, kind="stable"); np.sort({a}); np.sort({a}, axis={x}); np.cumprod({a}); {a}.prod()
np.prod({a}, axis={x}); np.unique({a}); np.nonzero({a})[0]; np.count_nonzero({a}); {a}.any()
{a}.all(axis={x}); np.any({B}, axis={x}); {a}.std(); np.var({a}, axis={x}); np.median({a})
np.exp({F}); np.log({F}); np.sqrt({a}); np.sin({a}); np.cos({F}); np.tanh({a}); np.exp({a})
np.hypot({a}, {a}); np.arctan2({a}, {a}); int({s}); float({s}); len({a}); {a}.shape[0]; {a}.ndim
{a}.size; {a} > {s}; {a} <= 0; ({a} > 0) & ({a} < 3); {a} == {a}; np.floor_divide({a}, {z})
np.remainder({a}, {z}); np.fmod({a}, {z}); np.power({a}, 2); np.square({a}); np.reciprocal({a})
np.gcd({I}, {I}); np.bitwise_xor({a}, {a}); np.searchsorted(np.sort({v}), {z})
np.isclose({a}, {z}); np.allclose({a}, {a}); np.array_equal({a}, {a}); np.argmax({a}, axis={x})
np.where({a} > 0)[0]; np.nanmax({a}); np.isin({a}, [1, 2]); np.copysign({F}, np.nan_to_num({z}))
np.divmod({a}, 2)[{k}]; np.histogram({a}, 3)[0]; np.digitize({a}, [0, 1]); np.argwhere({a}).sum()
np.angle({C}); abs({C}); np.true_divide({z}, {z}); np.left_shift({I}, 1); np.invert({a})
np.log1p({F}); np.expm1({F}); np.signbit(np.nan_to_num({F})); np.heaviside({F}, 0.5)
np.modf({F})[0]; np.frexp({F})[1]; np.rint({a}); np.fix({F}); np.percentile({a}, 50)
np.linalg.norm({a}); np.cbrt({F}); np.arctan({a}); np.minimum.reduce({a}, axis={x})
np.lexsort([{v}, {v}]); np.bincount(np.abs({v}.astype(int)) % 4, minlength=5)
{a}.astype(bool); {a}.argsort(axis={x}, kind="stable"); np.partition({v}, 1, None)[1]
np.flatnonzero({a})
np.logaddexp({F}, {F}); {c}; {c}; not {c}; isinstance({s}, float); isinstance({a}, np.ndarray)
{a}.dtype == {d}; {s} in {l}; np.iscomplexobj({a}); np.intersect1d({a}, {a}); np.float32({s})
np.int8({s}); bool({s}); round({s}, 1); str({a}.dtype); divmod({n}, 3); {a}.cumprod()
{a}.nonzero()[0]; np.unwrap({v}); np.bitwise_and.reduce({I}); np.logical_or.reduce({a})
{a}.view({d}); {a}.view(np.uint8)[..., 0]; np.packbits({B})
np.frombuffer({a}.tobytes(), {d}).copy()
np.max({a}) > {s}; np.tri({n}); np.array([e * 2 for e in {v}]); [e for e in {v} if e > 0]
len(LOG); LOG[-1:]; sum(LOG); SEEN.get("a", 0); "a" in SEEN; len(SEEN); H.copy(); bump(); len(m)
{s} in {1, 2, 3}; getattr(m, "k"); [*{v}, *LOG][-1]; bump() + {z}; H[:1] + {s}; m.half * {n}
sum(e for e in {v}); sorted({v}); max({v}); all({v} > 0); type({s}) is float
np.bitwise_count({I}); np.lcm({I}, {I}); np.nextafter({F}, {z}); np.ldexp({F}, 2); np.exp2({F})
np.float_power({F}, 2); np.nanargmax({a}); np.nanprod({a}); np.quantile({a}, 0.25); np.log2({F})
np.multiply.accumulate({v}); np.multiply.reduce({a}, axis={x}); np.bitwise_or.accumulate({I})
np.logical_xor.reduce({B}); np.divide.outer({v}, {v}); np.power.outer({v}, [0, 1, 2])
np.setdiff1d({v}, {v}); np.union1d({v}, {v}); np.unique({a}, return_counts=True)[1]
np.unique({a}, return_inverse=True)[1]; np.searchsorted(np.sort({v}), {z}, side="right")
np.sort({a}, axis=None); np.result_type({a}, {z}); np.unpackbits({a}.view(np.uint8)); {a}.nbytes
{a}.flags.c_contiguous; np.linalg.det({M}); np.fft.fft({v}); np.fft.rfft({F}); np.sinc({F})
np.equal.outer({v}, {v}); np.greater.reduce({v}); np.floor_divide.reduce({v}); np.deg2rad({F})
np.bitwise_xor.reduceat({I}, [0]); np.interp({v}, [0, 1, 3], [1, 2, -1])
np.argsort(-{v}, kind="stable")
{a}.max(axis={x}).argmin(); np.array_equiv({a}, {a}); np.nanmedian({a}); np.isneginf({F})
"""
# Lines that write. Those below are conditioned as LINEAR is.
WRITES = """
{a}[{j}] = {z}; {a}[{j}] = {z}; {a}[{j}] = {z}; {a}[{j}] += {z}; {a}[{j}] -= {z}; {a}[{j}] *= {z}
{a} += {z}; {a} -= {z}; {a} *= {z}; {a}[:] = {a}; {a}[...] = {z}; {a}.T[0] = {z}; {a}[1:][0] = {z}
{a}.reshape(-1)[0] = {z}; {a}.ravel()[{k}] = {z}; np.add({z}, {z}, out={a}); {a}.fill({s})
{a}[{B}] = {z}; {a}[{B}] += {z}; {a}[{I}] = {z}; {a}[[0, -1]] = {z}; np.copyto({a}, {z})
np.copyto({a}, {z}, where={B}); np.multiply({a}, {z}, out={a}, where={B}); {a}.real = {z}
{C}.imag = {z}; np.einsum("ii->i", {M}[:len({M}.T), :len({M})])[:] = {z}
{a}[::2] = {a}[::2]; {a}[1:] = {a}[:-1]
{a}[:-1] += {a}[1:]; {a}[{j}], {a}[{j}] = {a}[{j}], {a}[{j}]; np.fill_diagonal({M}, {s})
{a}.flat[:1] = {s}; np.add.at({v}, [0, 0], {s}); np.put({a}, [0, 1], {z}); put({a}, {z})
put({a}[{j}], {z}); {l}.append({a}); {l}.append({s}); {l}.append({z}); {l}.extend([{z}, {z}])
 {l}[0] = {z}; {l}[0] += {z}; m.w += {z}; m.w[{k}] = {z}
m.w = {a}; m.k = {s}; m.log.append({s}); {a}[{a} > 0] = {s}; {a}[{a} != {a}] = 0
np.negative({a}, out={a}); np.sum({M}, axis=0, out={v}); {a}[..., 0] = {z}; {a}[:, 0] = {z}
{a}[:, 1:] += {z}; np.cumsum({v}, out={v}); np.putmask({a}, {B}, {z})
{a}.T[...] = {z}; {a}[::-1][0] = {s}; np.dot({M}, {M}, out={M}); np.place({a}, {B}, [{s}])
{a}.swapaxes(0, -1)[0] -= {s}; {a}[{B}] = {a}[{B}]; {a}[{j}][{j}] = {z}; {a}.shape = (-1,)
np.clip({a}, 0, 2, out={a}); {a}[np.arange(2)] = {z}; {a}[{n}, {n}] = {s}
{a}[{n}] = {a}[{n} - 1] + {s}; {v}[{n}] = max({v}[{n} - 1], {s}); {M}[{n}, {n}] += {v}[{n}]
{v}[{n}] = {v}[{n}:].sum(); {a}[::-1] = {a}; {a}[:, ::-1] += {z}; {a}.ravel()[::2] = {s}
{a}[np.nonzero({a})] = {s}; {M}[np.ix_([0], [0, -1])] = {s}; {a}[{I}] += {z}; {a}[{B}] *= {z}
np.add.at({M}, ([0, 0], [0, -1]), {s}); np.maximum.at({v}, {I}, {s}); {a}.T[{j}] += {z}
np.subtract({a}, {z}, out={a}, where={B}); np.matmul({M}, {M}, out={M}); {v}[{n}:{n} + 2] = {z}
np.maximum({a}, {z}, out={a}); {M}[{n}] = {M}[{n} - 1] * {s}; {M}[:, {n}] -= {M}[{n}]
{a}[...] += {a}[::-1]; {a}[::-1] -= {a}; {a}[::-2] = {s}; {M}[::-1, ::-1] *= {s}
{M}.T[::-1] += {v}; {a}[-1:0:-1] = {z}; np.copyto({a}[::-1], {z}); np.add({z}, {z}, out={a}[::-1])
np.multiply({a}[::-1], {s}, out={a}); np.add.accumulate({v}, out={v}); {M} @= {M}
np.add.reduce({M}, 0, out={v}); np.matmul({M}, {v}, out={v}); {a}.sum(0, out={a}[0])
np.einsum("ij,j->i", {M}, {v}, out={v}); np.take({v}, [0, -1], out={v}[:2])
np.maximum.accumulate({a}, out={a}); {a}[:, None][0] = {z}; np.atleast_2d({v})[0] = {z}
np.nan_to_num({a}, copy=False); np.add.at({a}, {B}, {s}); [put(q, {s}) for q in {M}]
np.put_along_axis({a}, {I}, {s}, {x}); {M}[1:] = {M}[:-1] @ {M}; {M}[:] = {M} @ {M} + {M}
{M} += {M} @ {M}; {M}[::-1] = {M} @ {M}; {M}.T[...] = {M} @ {M}; np.dot({M}, {v}, out={v})
{a}[1:], {a}[:-1] = {a}[:-1], {a}[1:]; {a}[::2] += {a}[1::2]; {v}[::-1][1:] += {v}[:-1]
LOG.extend([{n}, {n}]); kw({a}, k={s})[...] = {z}
"""
WRITES_EXACT = """
{a} /= {z}; {a} //= {z}; {a} %= {z}; {a} **= 2; {a} &= {z}; {a} |= {z}; {a} <<= 1; {a}.sort()
{a}.sort(axis={x}); np.sqrt({a}, out={a}); np.exp({F}, out={F}); np.logical_not({B}, out={B})
np.floor({F}, out={F}); {a} ^= {z}; np.divide({a}, {z}, out={a}, where={B})
np.greater({a}, {z}, out={B}); np.subtract.at({v}, {I}, 1); {l}.append({s}); {l}.sort()
{a}.view(np.uint8)[..., 0] = 1; {a}.view({d})[:1] = 1; np.sign({a}, out={a}, where={B})
m.calls += 1; m.k = {n}; m.log.append({n}); LOG.append({n}); SEEN["a"] = {n}
H[0] = {n}; H[{k}] += 1; SEEN[{n}] = len(LOG); m.w = m.half; setattr(m, "k", {n})
LOG.append(bump()); LOG.clear(); del LOG[:1]; np.floor_divide({a}, 2, out={a})
np.divide({z}, {z}, out={a}[::-1]); np.multiply.at({v}, {I}, {z}); {a}[::-1].sort(); {a} >>= 1
np.power({a}, 2, out={a}); np.multiply.accumulate({v}, out={v}); np.greater({z}, {z}, out={a})
"""
# What is done with records, dates, spans of time and texts.
OTHERS = """
{R}[{j}]; {R}["a"]; {R}["b"]; {R}["b"][{j}]; {R}[["b", "a"]]; {R}.copy(); {R}[{R}["b"] > 0]
np.concatenate([{R}, {R}]); {R}.dtype.names; {R}.shape; {R}[::-1]; {R}[0]; {R}[{n}]; {R}.T
{R} == {R}; {R}[0]["b"]; {R}.view(np.uint8).size; len({R}); np.sort({R}, order="b")
np.zeros_like({R}); np.take({R}, [0, -1]); {R}[{I}]; np.repeat({R}, 2); np.where({B}, {R}, {R})
[e["b"] for e in {R}]; np.empty(2, {R}.dtype)["b"].shape; {R}.reshape(-1, 1); {R}[None]
np.argsort({R}["b"], kind="stable"); {R}["b"].sum(); {R}["a"].T; {R}.itemsize; {R}.ravel()
{D} - {D}; {D} + {T}; {D} - {T}; {D}[{j}]; {D}.max(); {D}.min(); {D} > {D}; {D} == {D}[0]
{D} + 1; {D}.astype("M8[M]"); {D}.view(np.int64); np.sort({D}); np.isnat({D}); np.diff({D})
{T} / np.timedelta64(1, "h"); {T} // np.timedelta64(7, "D"); {T}.sum(); {T} * 2; -{T}; abs({T})
np.unique({D}); {D}.astype(str); np.where({B}, {D}, {D}); {D}.copy(); np.concatenate([{D}, {D}])
{D}[{D} > np.datetime64("1990-01-01")]; {D}.astype(np.int64); np.maximum({D}, {D}); {T} > {T}
{D}.argmax(); {D} - np.timedelta64(3, "h"); np.datetime64("2020-02-02") - {D}; {T}.astype(int)
{D}[0] < {D}[-1]; {D}.reshape(-1, 1); {T}.mean(); np.cumsum({T}); {T} % np.timedelta64(2, "D")
np.arange({D}[0], {D}[0] + 3); {D}.dtype; {D}[:2].tolist()
{D}.dtype == "M8[D]"; str({D}[0]); {D} != {D}; {T} == {T}
{U}[{j}]; {U} == {U}; {U} == "ab"; {U} != "a"; {U} < "b"; "ab" == {U}; np.char.upper({U})
np.char.add({U}, "z"); np.char.str_len({U}); np.sort({U}); np.unique({U}); {U}.astype("S5")
np.concatenate([{U}, {U}]); {U}[{U} == "a"]; np.where({B}, {U}, "no"); {U}.astype(object)
np.isin({U}, ["a", "ab"]); {U}.tolist(); {U}[0] + "q"; {U}[0] == "a"; np.char.strip({U})
[e + "!" for e in {U}]; {U}.copy(); {U}[::-1]; ({U} == "ab").sum(); "".join({U}); {U}.reshape(-1, 1)
np.strings.startswith({U}, "a"); {a}.astype(str); np.array([{s}, {s}]).astype("U4")
np.char.find({U}, "a")
np.equal({U}, {U}); {U} >= {U}; np.array(["a", "b"]); {U}.max(); np.full(2, "ab"); {U}.size
"""
OTHERS_WRITES = """
{R}["b"] = {z}; {R}["b"][{j}] = {s}; {R}[{j}] = {R}[{j}]; {R}[0] = {R}[-1]; {R}["b"] += 1
{R}["a"][{j}] = {R}["a"][{j}]; {R}[::-1]["b"][0] = 3; {R}[{n}]["b"] = 1; {R}[{n}] = 0
{R}[{R}["b"] > 1] = 0; {R}["b"][{B}] = {s}; {R}.view(np.uint8)[0] = 0; {R}.fill(0)
{R}.sort(order="b")
{R}[["a", "b"]][0] = {R}[["a", "b"]][-1]; {R}["b"].T[0] = {s}; np.copyto({R}, {R}[0])
{D}[{j}] = np.datetime64("2020-02-02"); {D}[{j}] = "2020-02-03"; {D} += 1; {D}[{B}] = "NaT"
{D}[1:] = {D}[:-1]; {D} -= {T}; {T} *= 2; {D}.sort(); {D}[{n}] = {D}[0]; {T}[{j}] = 5
{D}.view("i8")[0] = 7; np.add({D}, 1, out={D}); {D}[::-1] = {D}; {D}.fill("2001-01-01")
{D}[{D} > {D}[0]] = {D}[0]
{U}[{j}] = "zz"; {U}[{B}] = "q"; {U}[0] = {U}[-1]; {U}[{U} == "a"] = "b"; {U}.sort()
{U}[:] = {U}[0]; {U}[::-1] = {U}; {U}.fill("w"); {U}[{n}] = "longer than it is"
np.copyto({U}, "t")
"""
LEAVES = (
    "if {c}: raise ValueError('bad')", "assert {c}, 'it is not'", "if {c}: return {'early': {a}}",
    "if {c}: return None", "if {c}: raise KeyError({n})", "if {c}: return {'early': [{a}, {s}]}",
)  # fmt: skip
CONDITIONS = (
    "{a}.sum() > {s}", "{v}[0] > {v}[-1]", "np.any({B})", "({a} > {z}).all()", "{s} > {s}",
    "{n} % 2 == 0", "len({a}) > 3", "{a}.ndim == 2", "{a}.max() >= 2 or {s} < 1", "{n} < {n}",
    "{v}[{n}] > 0", "not {B}.any()", "{s} == {s} and {v}[0] != 0", "{a}.size", "0 < {v}[0] < 3",
    "{s}", "{a}.shape == {a}.shape", "abs({s}) > 1", "{M}[0, {k}] <= {s}", "{a}.any()", "{v}[{n}]",
)  # fmt: skip
CONTEXTS = (
    "with contextlib.suppress(ValueError, KeyError, IndexError):",
    "with contextlib.suppress(KeyError):",
    "with np.errstate(all='ignore'):",
)  # fmt: skip
HEADS = (
    "for {i} in range({n}):", "for {i} in range(len({a})):", "for {i} in range(1, {v}.shape[0]):",
    "for {i} in range({a}.shape[-1]):", "for {i} in range({n}, {v}.size):", "for {i} in range(5):",
    "for {i} in range({v}.size - 1, -1, -1):", "for {i} in range(0, {v}.size, 2):",
    "for {i} in reversed(range({v}.shape[0])):", "for {i} in range({v}.size - 1):",
    "for {i}, r in enumerate({a}):", "for r in {a}:", "for r, q in zip({a}, {a}):",
    "for {i} in range(12):", "for {i} in range(10):",
    "for {i} in range(7):", "for r in {l}:", "for {i}, r in zip(range(9), {a}):",
    "for {i} in np.arange({n}):", "for {i}, r in enumerate({l}):", "for {i} in [0, 1, -1]:",
    "for {i} in range(max(0, {n} - 1), min({v}.size, {n} + 3)):",
    "for {i} in range(min({n}, 2), max({n}, {v}.size - 1)):",
)  # fmt: skip
# Loops in which a condition decides what a list gets.
FILLING = (
    "for {i}, r in enumerate({v}):",
    "for {i}, r in enumerate(np.resize({v}, 11)):",
    "for {i}, r in zip(range(9), np.resize({v}, 9)):",
)
KEPT = ("r > 0", "r > {s}", "r > {s} and {i} > 1", "not r > 0", "r == r", "{i} % 2 or r > 1",
        "r > 1 or r < -1", "{v}[{i} % 2] > r")  # fmt: skip
ELEMENTS = ("r", "r", "{i}", "{i}", "({i}, r)", "r * 2", "float(r)", "[r, {i}]", "{i} + 1", "2.5",
            "r > 1", "(r, r)")  # fmt: skip
OF_LISTS = ("len({i})", "np.array({i})", "np.sum({i})", "{i}[0]", "{i}[-1]",
            "{i} + [1]", "sum({i})", "[e for e in {i}]", "({i}, {i})", "1 if {i} else 0",
            "np.cumsum({i})", "max({i})", "{i}.copy()", "list({i})", "{i}[1:]")  # fmt: skip
# Names `p` and `q` of arrays that rounds bind anew, or leave as they were.
STARTS = ("{a}", "{v}", "{F}", "{F}", "{p}", "{p}", "{p}[::-1]", "{p}[:]", "{p} * 1", "{p}.copy()")
BOUND = ("{p} * 0.5", "{q} * 0.5", "{q} + {s}", "{q} - {p}", "{q}", "{q}", "{q}[:]", "{q}[::-1]",
         "{p}.copy()", "{a}")  # fmt: skip
BINDS = ("{p} = {e}", "{p} = {e}", "{p} = {e}", "{p}, {q} = {q}, {p}", "{p}[{j}] = {s}",
         "{p} -= {s}", "{p}, {q} = {e}, {p}")  # fmt: skip
ASKED = ("{p}.sum() > {s}", "{p}[0] > {s}", "{p}[-1] < {q}[0]", "{c}", "{n} % 2 == 0")
ROUNDS = ("for r in {a}:", "for {i} in range(5):", "for {i} in range({n}):", "while {c}:",
          "while {p}.sum() > {s}:", "while {q}[0] != {s}:")  # fmt: skip
# What rounds over elements do to a Python number.
COUNTS = (
    "{i} += int(r)", "{i} -= int(r)", "{i} += 1", "{i} = {i} * 2 + int(r)", "{i} += int(r > 0)",
    "{i} = max({i}, int(r))", "{i} += float(r)", "{i} += int(r) % 3", "{i} = {i} + r.item()",
    "if int(r) > {i}: {i} += 5", "{i} += bool(r)", "{i} = int(r) - {i}", "{i} ^= int(r)",
)  # fmt: skip
INDICES = (
    ":", "1:", "::2", "::-1", "0", "-1", "...", "None", ":, 0", "..., 0", "1:3", ":-1", "..., -1",
    "0, ...", "1", ":, 1:", ":2", "-2:", "1:-1", "{n}", "{n}", "{n}:", ":{n}", "{n} - 1", "-{n}",
    "{n}:{n} + 2", "{n}, 0", ":, {n}", "{n}, {n}", "{n}, :", "({n} + 1) % 3", "{n} // 2",
    "2 * {n}", "{n}, {n}:", "..., None", "[0, -1]", ":, [0, 0]", "[True, False]", "()", "0, 0",
    "None, ..., None", ":0", "::-2", "{n}::-1", "{n} - 1:{n} + 2", "1:, :-1", "{I}", "{B}", "[]",
    "slice(None, 2)", "...,",
)  # fmt: skip
DTYPES = (
    "float", "int", "bool", "complex", "np.float32", "np.float64", "np.int8", "np.uint8",
    "np.int16", "np.uint16", "np.int32", "np.uint32", "np.int64", "np.uint64", "np.float16",
    "np.complex64", "'f4'", "'i4'",
)  # fmt: skip


def split(texts: str) -> tuple[str, ...]:
    """The templates of a table."""
    return tuple(t.strip() for t in texts.replace("\n", ";").split(";") if t.strip())
