"""Protections of the real code, taken out one by one: each makes the judge of some seed find what the protection is
for."""

from contextlib import AbstractContextManager
from typing import NamedTuple

from sluicegate.streams.aggregation.groups import Groups
from tests.simulation import calm
from tests.simulation.plan import Fault, Plan, plan
from tests.simulation.taken_out import (
    careful_relay,
    entry_skipped,
    failed_forgotten,
    forgets_too_much,
    no_lineage,
    not_again,
    not_void,
    numbers_of_what_is_left,
    offset_apart,
    offset_first,
    one_more_seek,
    purged,
    refused_forgotten,
    rewound_by_version,
    timers_early,
    token_alone,
    version_alone,
    waits_for_a_clock,
    watermark,
    zombie_marks,
)
from tests.simulation.taken_out_changed import (
    all_again,
    begun_again,
    idle_from_the_first,
    last_forgotten,
    left_open,
    lowered_is_count,
    older_not_named,
    still_open,
    takes_them,
    undivided,
)
from tests.simulation.taken_out_correlated import (
    any_distance,
    called_absent,
    ends_itself,
    ends_not_kept,
    not_remembered,
    one_leg,
)
from tests.simulation.taken_out_early import (
    cancelled_deadline_stays,
    deadline_not_asked,
    evicted_before_they_end,
    first_deadline_stays,
    past_not_compacted,
    past_not_in_the_row,
    past_not_restored,
)
from tests.simulation.taken_out_paged import (
    closes_not_restored,
    cold_unseen,
    left_behind,
    no_deadline,
    no_row,
    not_compacted,
    not_cut,
    not_deleted,
    not_judged,
    not_looked_up,
    not_restored,
    older_clock_not_compacted,
    rows_not_restored,
    starts_not_restored,
    unnoticed,
    waits_for_the_clock,
)
from tests.simulation.taken_out_routed import all_sent, all_taken, first_forwarded, held_back, one_route
from tests.simulation.taken_out_shared import (
    any_lease,
    counted_apart,
    dead_all_the_same,
    hand_outs,
    nobody_looks,
    removed_first,
    results_forgotten,
    sealed_apart,
    unmarked,
    watermark_first,
)
from tests.simulation.taken_out_slow import key_not_in_order, loss_counts_as_death
from tests.simulation.taken_out_windows import (
    by_batch,
    closed_forgotten,
    dropped_at_close,
    grace_forgotten,
    highest_origin,
    idle_for_ever,
    mark_first,
    merged_kept_twice,
    next_window_forgotten,
    old_end_believed,
    origins_forgotten,
    pane_dropped_early,
    revision_without_id,
    unknown_ignored,
    watermark_compacted,
    watermark_forgotten,
)
from tests.simulation.taking_out import TakeOut, taken_out


class Mutant(NamedTuple):
    """`take_out` names a protection or patches one away; `kind` needs it, `seed` shows it, with `more` faults than its
    own, and where delivery reports are `slow` all the time."""

    name: str
    kind: str
    take_out: TakeOut
    seed: int = 0
    slow: bool = False
    more: tuple[Fault, ...] = ()

    @property
    def plan(self) -> Plan:
        chosen = plan(self.seed, kind=self.kind)
        reports = (
            [Fault(step, "slow-reports", number, "", 40) for step in range(5, 380, 20) for number in range(6)]
            if self.slow
            else []
        )
        return chosen._replace(faults=tuple(sorted([*chosen.faults, *reports, *self.more])))

    def __str__(self) -> str:
        return self.name


def mutated(mutant: Mutant) -> AbstractContextManager[None]:
    return taken_out(mutant.take_out, calm)


AHEAD = (Fault(300, "store-clock", 0, "", 3600.0), Fault(380, "store-clock", 0, "", -3600.0))
"""The store's clock is an hour ahead, and then right again."""
BACK = tuple(Fault(step, "rewind", 0, "", size) for step, size in ((120, 2), (180, 3), (240, 2), (300, 4), (350, 3)))
ERRORS = tuple(Fault(step, "raise-at", 0, "before-commit") for step in (100, 250) for _ in range(15))
"""So many processes in a row end by an error at what they work on."""
LOSSES = tuple(Fault(step, "lost-at", 0, "commit-asked") for step in range(20, 380, 4))
"""Claims are lost all the time, while calls run."""

MUTANTS = (
    Mutant("no-compare-and-set", "count", "fence"),
    Mutant("token-without-version", "count", token_alone, 16),
    Mutant("version-without-token", "count", version_alone),
    Mutant("published-before-the-commit", "timed", "output-commit"),
    Mutant("offset-after-state", "count", offset_apart),
    Mutant("offset-without-outbox", "count", offset_first, 1),
    Mutant("memory-kept-after-unknown-result", "count", "keep-state"),
    Mutant("no-seek-after-a-claim", "count", "seek"),
    Mutant("stale-batch", "count", "stale-batch"),
    Mutant("first-record-not-looked-at", "count", not_void, 1009),
    Mutant("goes-on-past-a-failure", "count", "relay-order", 2),
    Mutant("acknowledged-up-to-the-highest", "message", "exact-acks", 14, slow=True),
    Mutant("numbers-of-what-is-left", "count", numbers_of_what_is_left),
    Mutant("failed-row-forgotten", "count", failed_forgotten),
    Mutant("refused-row-forgotten", "refused", refused_forgotten),
    Mutant("other-shards-not-sent-again", "count", careful_relay, 6),
    Mutant("rows-purged-at-claim", "count", purged),
    Mutant("restore-skips-an-entry", "count", entry_skipped),
    Mutant("compaction-without-old-groups", "count", forgets_too_much),
    Mutant("no-deadlines-after-a-restore", "timed", lambda patch: patch.setattr(Groups, "rearm", lambda self: None)),
    Mutant("timers-early", "timed", timers_early),
    Mutant("waits-for-a-clock-that-was-ahead", "timed", waits_for_a_clock, more=AHEAD),
    Mutant("never-claims-again", "count", not_again, 2),
    Mutant("no-crash-marks", "poison", "crash-marks"),
    Mutant("claims-counted-as-crashes", "count", zombie_marks),
    Mutant("receiver-remembers-nothing", "chain", "receive"),
    Mutant("no-dedupe", "dedupe", "dedupe"),
    Mutant("session-apart", "session", "session"),
    Mutant("sealed-forgotten", "slow", "sealed"),
    Mutant("items-of-a-key-run-beside-each-other", "slow", key_not_in_order),
    Mutant("a-lost-claim-counts-as-a-death", "slow", loss_counts_as_death, 3, more=LOSSES),
    Mutant("gaps-not-checked", "count", "claim-checks", 91),
    Mutant("rewound-by-version", "until", rewound_by_version, 1244),
    Mutant("receiver-with-watermark", "gaps", watermark),
    Mutant("shard-without-lineage", "timed", no_lineage, 7, more=BACK),
    Mutant("never-clears", "count", "clear-crash-mark", more=ERRORS),
    Mutant("insert-without-the-watermark", "shared", "watermark"),
    Mutant("watermark-before-the-insert", "shared", watermark_first),
    Mutant("sealed-apart-from-the-insert", "shared", sealed_apart, 2),
    Mutant("removed-before-the-message", "shared", removed_first),
    Mutant("dead-letter-of-what-is-in-the-buffer", "shared", dead_all_the_same, 1002),
    Mutant("nobody-looks-for-what-others-left", "shared", nobody_looks),
    Mutant("shared-waits-for-a-clock-that-was-ahead", "shared", "buffer-set-back", 1, more=AHEAD),
    Mutant("deadlines-of-shared-records-get-lost", "shared due", "shared-dues"),
    Mutant("shared-deadlines-wait-for-a-clock-that-was-ahead", "shared due", "buffer-set-back", 1, more=AHEAD),
    Mutant("early-results-counted-before-the-message", "shared early", counted_apart),
    Mutant("early-results-of-a-batch-forgotten", "shared early", results_forgotten),
    Mutant("early-results-of-any-lease", "shared early", any_lease),
    Mutant("suspects-run-in-company", "killer", "shared-suspects"),
    Mutant("hand-outs-taken-for-deaths", "killer", hand_outs, 4),
    Mutant("times-alone-not-written", "killer", unmarked),
    Mutant("older-generation-not-named", "changed", older_not_named, 1007),
    Mutant("groups-of-another-file-are-taken-over", "changed", takes_them),
    Mutant("ended-and-still-open", "changed", still_open, 1007),
    Mutant("idle-from-the-first-record", "changed", idle_from_the_first, 1),
    Mutant("lowered-count-is-called-count", "changed", lowered_is_count),
    Mutant("all-records-are-read-again", "deployed", all_again, 1),
    Mutant("results-of-an-earlier-rule-come-last", "deployed", "earlier-rule-first", 1012),
    Mutant("overlapping-windows-of-two-rules", "windows deployed", undivided, 1),
    Mutant("the-last-window-of-a-rule-is-forgotten", "windows deployed", last_forgotten, 2),
    Mutant("days-of-two-rules", "calendar deployed", begun_again),
    Mutant("an-open-session-of-an-earlier-rule-gets-no-record", "sessions deployed", left_open),
    Mutant("taken-after-one-more-seek", "until", one_more_seek, 87),
    Mutant("where-not-asked", "routed", all_taken),
    Mutant("what-where-leaves-out-moves-no-offset", "routed", held_back, 178),
    Mutant("having-not-asked", "routed", all_sent),
    Mutant("first-route-alone", "routed", one_route),
    Mutant("where-of-a-forwarder-not-asked", "forwarded", all_taken),
    Mutant("a-forwarder-sends-before-it-commits", "forwarded", "output-commit"),
    Mutant("forwarded-to-the-first-route-alone", "forwarded", first_forwarded),
    Mutant("watermark-not-restored", "windows", watermark_forgotten),
    Mutant("watermark-not-in-the-compacted-log", "windows", watermark_compacted, 5),
    Mutant("records-judged-by-batch", "windows", by_batch),
    Mutant("origins-not-restored", "origins", origins_forgotten),
    Mutant("mark-before-its-records", "origins", mark_first),
    Mutant("highest-origin-judges", "origins", highest_origin),
    Mutant("unknown-origin-holds-nothing", "origins", unknown_ignored),
    Mutant("idle-origin-stays-idle", "origins", idle_for_ever, 446),
    Mutant("answer-of-a-broker-is-old", "silence", old_end_believed, 3),
    Mutant("closed-windows-not-in-the-log", "windows", closed_forgotten, 4),
    Mutant("amended-window-dropped-at-its-close", "windows", dropped_at_close, 4),
    Mutant("revision-with-the-id-of-the-first-result", "windows", revision_without_id, 1),
    Mutant("windows-without-grace", "windows", grace_forgotten, 1),
    Mutant("pane-dropped-early", "windows", pane_dropped_early, 1),
    Mutant("next-window-not-in-the-log", "windows", next_window_forgotten, 1),
    Mutant("merged-session-kept-twice", "windows", merged_kept_twice, 2),
    Mutant("ended-key-not-remembered", "correlated", not_remembered),
    Mutant("ended-keys-not-restored", "correlated", ends_not_kept),
    Mutant("absent-before-what-waits-was-read", "correlated", called_absent),
    Mutant("key-of-absent-leg-not-remembered", "legs", not_remembered),
    Mutant("ended-keys-not-in-the-log", "legs", ends_not_kept),
    Mutant("origins-of-legs-not-restored", "legs", origins_forgotten, 1032),
    Mutant("highest-leg-judges", "legs", highest_origin),
    Mutant("one-leg-judges", "legs", one_leg),
    Mutant("legs-of-any-distance", "legs", any_distance),
    Mutant("group-ends-at-its-own-record", "legs", ends_itself, 4),
    Mutant("cold-row-written-and-log-not-cut", "count", not_cut),
    Mutant("log-cut-and-cold-row-not-written", "count", no_row),
    Mutant("row-not-deleted-when-its-group-ends", "count", not_deleted),
    Mutant("rows-of-hot-groups-not-restored", "count", rows_not_restored),
    Mutant("cold-row-without-its-deadline", "timed", no_deadline),
    Mutant("deadline-of-a-cold-row-not-noticed", "timed", unnoticed, 2),
    Mutant("cold-groups-not-looked-up", "count", not_looked_up),
    Mutant("cold-groups-not-judged-again", "changed", not_judged, 3),
    Mutant("cold-groups-left-behind", "deployed", left_behind),
    Mutant("cold-groups-not-restored", "count", not_restored),
    Mutant("cold-groups-not-in-the-compacted-log", "count", not_compacted),
    Mutant("cold-groups-wait-for-a-clock-that-was-ahead", "timed", waits_for_the_clock, 1010, more=AHEAD),
    Mutant("evicted-before-they-end", "changed", evicted_before_they_end, 9890),
    Mutant("log-cut-and-cold-window-not-written", "windows", no_row, 3),
    Mutant("cold-windows-not-looked-up", "windows", not_looked_up, 3),
    Mutant("starts-of-cold-windows-not-restored", "windows", starts_not_restored, 3),
    Mutant("cold-windows-not-seen-by-silence", "silence", cold_unseen, 1),
    Mutant("cold-sessions-not-looked-up", "windows", not_looked_up),
    Mutant("next-close-of-cold-sessions-not-restored", "windows", closes_not_restored),
    Mutant("watermark-of-the-rule-before-not-compacted", "sessions deployed", older_clock_not_compacted, 33),
    Mutant("early-results-not-restored", "early", past_not_restored),
    Mutant("early-results-not-in-the-compacted-log", "early", past_not_compacted),
    Mutant("early-results-not-in-the-cold-row", "early", past_not_in_the_row),
    Mutant("cancelled-deadline-stays", "deadlines", cancelled_deadline_stays),
    Mutant("first-deadline-stays", "deadlines", first_deadline_stays),
    Mutant("deadline-of-the-data-not-asked", "deadlines", deadline_not_asked),
)
