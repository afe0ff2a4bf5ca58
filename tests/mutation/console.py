"""Guards of the console, of the state API, and of the HTTP port that serves them."""

from tests.mutation.guard import NEVER, Guard

PORT, PAGE = "streams/observe/http.py", "streams/console/page/core/html.js"
CHANGES, QUESTIONS = ("tests/unit/console/test_changes.py",), ("tests/unit/console/test_questions.py",)
LETTERS, INDEX = "streams/console/letter_index.py", ("tests/unit/console/test_letter_index.py",)
TABLE = ("tests/unit/console/test_group_table.py",)
CALLS = ("tests/unit/observe/test_http_calls.py",)
STATE, CLIENT = ("tests/unit/serving/test_state.py",), ("tests/unit/serving/test_client.py",)
COMMITTED, RESOURCES = "streams/serving/committed.py", "streams/serving/calls.py"

GUARDS = (
    Guard(
        "a change needs the secret that only our own page can read",
        PORT,
        'if not _same(self.headers.get(CHANGE_HEADER, ""), self.server.calls.secret):',
        NEVER,
        CHANGES,
    ),
    Guard("a form of another site is no change", PORT, "if self.headers.get_content_type() != JSON:", NEVER, CHANGES),
    Guard("a page of another origin is refused", PORT, "if not self._of_our_origin():", NEVER, CHANGES),
    Guard(
        "on loopback a name that leads elsewhere is refused",
        PORT,
        'and not is_loopback(_host_of(self.headers.get("Host", "localhost"))):',
        "and False:",
        ("tests/unit/observe/test_http.py", *CHANGES),
    ),
    Guard(
        "the console needs the token",
        PORT,
        "free = path in OPEN or path in self.server.calls.files",
        "free = path in OPEN or path in {*self.server.calls.files, *self.server.calls.questions}",
        CHANGES,
    ),
    Guard(
        "calls that hang leave connections for probes",
        PORT,
        "if not self.server.free_calls.acquire(blocking=False):",
        "if not self.server.free_calls.acquire(blocking=False) and False:",
        CALLS,
    ),
    Guard(
        "a body that does not come holds no thread",
        PORT,
        "remaining = deadline - time.monotonic()",
        "remaining = 30",
        CALLS,
    ),
    Guard(
        "the page runs no script but its own",
        PORT,
        "script-src 'self';",
        "script-src 'self' 'unsafe-inline';",
        QUESTIONS,
    ),
    Guard(
        "a key in the page stays text",
        PAGE,
        "...children.map(safe))",
        "{ dangerouslySetInnerHTML: { __html: children } })",
        QUESTIONS,
    ),
    Guard(
        "a cause names no letter that was retried",
        "streams/console/changes.py",
        'if not item.shown["retried"]',
        "",
        CHANGES,
    ),
    Guard(
        "dead letters that cannot be read are not none",
        "streams/console/dead_page.py",
        "if dead is None or dead.listing.missing:",
        "if dead is None:",
        QUESTIONS,
    ),
    Guard(
        "the head of the page has no password",
        "streams/console/about.py",
        '"" if urls.uncertain(url) else urls.hosts_of(url)',
        "url",
        QUESTIONS,
    ),
    Guard(
        "the last hour of an agent is bounded",
        "streams/observe/history.py",
        "deque(maxlen=SAMPLES)",
        "deque()",
        ("tests/unit/observe/test_history.py",),
    ),
    Guard(
        "a change of the console needs a reason",
        "streams/console/changes.py",
        "    if not why:",
        f"    {NEVER}",
        CHANGES,
    ),
    Guard(
        "the console asks before other readers see a record again",
        "streams/console/changes.py",
        'if letters and fields.get("yes") is not True and (ask :=',
        "if not letters and (ask :=",
        CHANGES,
    ),
    Guard(
        "a change of the console is seen at once",
        "streams/console/questions.py",
        "        self.snapshot.expire()\n",
        "",
        CHANGES,
    ),
    Guard(
        "an answer of the console has a bounded number of groups",
        "streams/console/questions.py",
        "for row in matches[first : first + PAGE]]",
        "for row in matches[first:]]",
        QUESTIONS,
    ),
    Guard(
        "the console lists a bounded number of groups",
        "streams/console/snapshot.py",
        "for group in groups_in(part)), most))",
        "for group in groups_in(part)), None))",
        TABLE,
    ),
    Guard(
        "a reading of the console lets other questions in between",
        "streams/console/questions.py",
        "return taken(self.app, self.desk.store, self._reported())",
        "import contextlib\n        with self.desk.store() as store:\n            "
        "return taken(self.app, lambda: contextlib.nullcontext(store), self._reported())",
        TABLE,
    ),
    Guard(
        "a text that lies across two keys is found in neither",
        "streams/console/group_table.py",
        "if at + len(text) <= ends[row]:",
        "if row >= 0:",
        TABLE,
    ),
    Guard(
        "an answer of the console does not wait for a long reading",
        "streams/console/questions.py",
        "self.snapshot.within(PATIENCE)",
        "self.snapshot.get()",
        TABLE,
    ),
    Guard(
        "a list that takes long to read stays until it is read again",
        "streams/console/kept.py",
        "if self._took < LEAST:",
        "if True:",
        QUESTIONS,
    ),
    Guard(
        "the console keeps the newest dead letters alone",
        LETTERS,
        "            self._forget(place, first)\n",
        "",
        INDEX,
    ),
    Guard("the console reads a dead letter once", LETTERS, "max(first, self._ends.get(place, 0))", "first", INDEX),
    Guard("the console keeps no content of a dead letter", LETTERS, "            value=None,\n", "", INDEX),
    Guard(
        "the letters of a topic that was created anew are those of the new one",
        LETTERS,
        "if self._ends[place] > bounds.get(place, (0, -1))[1]:",
        NEVER,
        INDEX,
    ),
    Guard(
        "other keys of the app make the console judge its letters again",
        LETTERS,
        "if keys != self._keys:",
        NEVER,
        INDEX,
    ),
    Guard(
        "the console reads the store for a share of the time",
        "streams/console/kept.py",
        "elif self._clock() >= self._due and",
        "elif",
        QUESTIONS,
    ),
    Guard(
        "the state API needs the token",
        PORT,
        "if token and not free and not _authorized(",
        'if token and not path.startswith("/agents/") and not free and not _authorized(',
        (*STATE, *CLIENT),
    ),
    Guard(
        "a reading of the state answers for a bounded time",
        COMMITTED,
        "if reading is None or fresh or began >= reading.until:",
        "if reading is None or fresh:",
        STATE,
    ),
    Guard(
        "a group that opens while it is looked for is in the answer",
        "streams/operations/groups/cold_groups.py",
        "return any(plain_key(contents.groups, name) == key for entry in later for name in unpacked(entry).states)",
        "return False",
        STATE,
    ),
    Guard(
        "an answer of the state API has a bounded number of groups",
        RESOURCES,
        "for group in groups[:PAGE]:",
        "for group in groups:",
        STATE,
    ),
    Guard("an entity tag is of one state", RESOURCES, 'tag.removeprefix("W/") in tags', "bool(wanted)", STATE),
    Guard("a key in a path is percent-encoded", RESOURCES, "if not ENCODED.fullmatch(path):", NEVER, STATE),
    Guard(
        "the client follows no redirect with its token",
        "streams/serving/client.py",
        "build_opener(_NoRedirects)",
        "build_opener()",
        CLIENT,
    ),
)
