"""Times of calls, and lines that set them beside others."""
import statistics
import time


def median(call, rounds=3):
    """Seconds of a call, of `rounds` after one that is not counted."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def report(what, seconds, **beside):
    """A line: what, its seconds, and for each other time that and the ratio."""
    print(f"{what:44s} {seconds:9.4f} s" + "".join(f"  {name} {t:.4f} ({seconds / t:.2f})" for name, t in beside.items()), flush=True)
