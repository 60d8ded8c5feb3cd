from .demo import Demo as Demo, run_demo as run_demo
