"""`duetlink demo`: runs the notebooks of a lesson against each other in real Jupyter kernels.

Nouns:

- lesson: the notebooks that belong together, `1-basics` and so on (`lesson.py`).
- role: the name of a notebook: `owner`, `owner-NAME`, `scientist` or `member-NAME`.
- player: runs one notebook in one kernel (`player.py`); a *step* is the cells under one heading.
- cue: a function that is called before a tagged cell; two cues pass the session code from one notebook to
  another (`play.py`).
- summary: one kernel's report on its duets at the end (`summary.py`). `outcome.py` checks that both sides
  agree, and prints the tables.

Example. `duetlink demo 1` starts a signaling server in a process of its own (`server.py`) and two kernels.
The owner's cell tagged `give-code` has to run before the scientist's cell tagged `take-code`, whose `CODE =
"…"` is replaced by the owner's code. `screen.py` shows the progress. The executed notebooks are saved to
`duetlink-demo/1-basics`.
"""
