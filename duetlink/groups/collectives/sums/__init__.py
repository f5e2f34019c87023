"""Sums that send less than whole arrays: with the same bits as a dense sum, or with a bound that is reported.

- dense sum: the sum of whole arrays, as without a codec.
- support: the indices of the items of an array that are not zero. As a bitmap, one bit for each item.
- union: the union of all members' supports. Its density is its size divided by the size of the array.
- way: the method that ran: "dense", "union", "blocks", "integers", "sketch" or "agreed".
- job: one flat array to be summed in place (`SumJob`). A job is several operations of the engine.
- report: the way, the reason for it, the bytes sent and the error bound (`SumReport`).
- place: the index of an item in the flat array.
- bound: the largest difference between a result and the sum, before rounding. 0: the bits of the dense sum.

Example: two members sum arrays of 8 items, [0 0 5 0 0 0 1 0] and [0 0 2 0 0 0 0 0], by `codec="union"`. First
their bitmaps are combined by "or": the union is items 2 and 6. Then the values at places 2 and 6, [5 1] and
[2 0], are summed like any other array. The result is [0 0 7 0 0 0 1 0], and its density is 25 %.
"""
