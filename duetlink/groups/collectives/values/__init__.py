"""Turns values of any shape into flat arrays and back, and runs the operations on flat arrays.

- value: what a user passes: an array, tensor or number, or a dict, list or tuple of those.
- leaf: one array or number in a value.
- tree: a value taken apart: its structure as JSON, and its leaves from left to right.
- element: the kind of an item, such as float32 or bfloat16.
- form: the structure, kinds and shapes of a value without its items. Members compare forms.
- flat array: all items of one element of a value, in one dimension. It is what an operation works on.
- operand: one flat array prepared for an operation, perhaps in a wider element.
- halves: a mean of int64 is computed from two sums, of the upper and of the lower bits.

Example: `{"w": float32[3, 4], "b": float32[4], "n": int64[]}` has three leaves and two elements. Its tree
gives two flat arrays, float32[16] and int64[1], and each is one operation. Its structure is ["d", ["w", "b",
"n"], 0, 0, 0], in which every 0 stands for a leaf.
"""
