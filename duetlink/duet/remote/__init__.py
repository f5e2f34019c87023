"""Work on data that is elsewhere: on the scientist's side the pointers and what they record, on the owner's
the desk that hands the steps to a process of their own.
"""
