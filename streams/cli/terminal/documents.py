"""The fields of `--json` output, for the reference of the commands."""

GROUP = (
    "`key` (or `key_base64`), `topic`, `partition`, `owner`, `count`, `window`, `first`, `last`, `bytes`, `age`, "
    "`fires_in`"
)
DROPPED = "`rows`, `letters`: how many"
FIELDS = {
    "check": (
        "`ok`; `problems` and `warnings`: each `file`, `line`, `key`, `message`, `hint`; `schemas`: the Avro schemas "
        "of outputs; with `--connect`, `systems`: each `system`, `ok`, `text`, `hint`; with `--sample`, `samples`"
    ),
    "plan": (
        "`format`; `agents`: each `name`, `from`, `to`, `class`, `changes`, `open`, `now`, `left`, `replay`; `file`, "
        "`refused`, `unknown`"
    ),
    "deploy": "`format`; `agents`: each `name`, `from`, `to`, `rule`, `open`, `partitions`, `switched`, `finishing`",
    "topics": (
        "`topics`: each `topic`, `roles`, `partitions`, `wanted`, `created`; `copartitioned`, `shared`; with "
        "patterns, `matches`"
    ),
    "init": "`files`: the names of the files that were written; `next`: the commands to type next",
    "migrate": "`dry_run`; `steps`: those that were done, or with `--dry-run` would be",
    "status": (
        "`app`, `store`, `level`; `partitions`: each `agent`, `topic`, `partition`, `owner`, `offset`, `high`, `lag`, "
        "`open_groups`, `oldest`, `next_deadline`, `unsent`, `dead`, `note`; `agents`: the totals; `unreachable`, "
        "`transactional`, `left_behind`. With `--watch`, one document a line"
    ),
    "explain": (
        "`id`, `fire`, `agent`, `output`, `reason`, `count`, `topic`, `partition`, `first`, `last`, `offsets`, "
        "`left_out`, `complete`, `notes`"
    ),
    "accept-gap": "`accepted`: each `place`, `code`, `error`, `offset`, `era`, `groups_forgotten`, `items_forgotten`",
    "audit": "`changes`: each `at`, `agent`, `topic`, `partition`, `who`, `what`, `key`, `why`",
    "replay": (
        "with `--rebuild`, `rebuilt`: each `topic`, `partition`, `offset`, `records_read`, `results_found`, "
        "`groups_restored`, `sent_anew`; with `--rewind`, `format`, `agent`, `replay`, `into`, `partitions`; with "
        "`--shadow`, `format`, `agent`, `records`, `published`, `given`, `left_out`, `comparable`, a number for each "
        "verdict, `dead`, `open`, `examples`, `notes`; with `--abandon`, `format`, `agent`, `abandoned`, `into`"
    ),
    "docs": "`keys`: each `key`, `description`, `types`, `required`, `default`, `example`",
    "asyncapi": "the AsyncAPI document itself",
    "version": "`version`, `kernel`",
    "test": "`ok`; `tests`: each `name`, `line`, `ok`, `failure`, `deaths`, `lost`, `place`, `warnings`",
    "eval": (
        "`agent`; `record` and `result`: each `clauses`, `becomes`, `reason`, `error`, `clause`, `outputs`; with "
        "`--show-code`, `agent` and `code`"
    ),
    "groups ls": f"`groups`: each {GROUP}",
    "groups show": f"`groups`: each {GROUP}, `values`",
    "groups why": f"`groups`: each {GROUP}, `why`",
    "groups fire": f"`fire`: {GROUP}",
    "groups drop": f"`drop`: {GROUP}",
    "timeouts ls": "`timeouts`: each `id`, `due_at`, `destination`, `key`, `owner`, `every`",
    "timeouts cancel": "`id`",
    "timeouts reschedule": "`id`, `due_at`",
    "timeouts add": "`id`, `due_at`, `destination`, `key`, `owner`, `every`",
    "outbox ls": (
        "`rows`: each `id`, `state`, `topic`, `key`, `lane`, `attempts`, `created_at`, `dispatched_at`, "
        "`next_attempt_at`, `reason`"
    ),
    "outbox show": (
        "the fields of `outbox ls`: `id`, `state`, `topic`, `key`, `lane`, `attempts`, `created_at`, `dispatched_at`, "
        "`next_attempt_at`, `reason`; `headers`; with `--payload`, `value`; `history`: each `attempt`, `at`, "
        "`outcome`, `error`"
    ),
    "outbox retry": "`pending`: how many rows",
    "outbox drop": "`dropped`: how many rows",
    "parked ls": "`parked`: each `place`, `kind`, `key`, `attempts`, `error`",
    "parked retry": "`retried`: the places",
    "dead ls": (
        "`dead`: each `id`, `kind`, `agent`, `topic`, `partition`, `offset`, `to` or `letter`, `stage`, `reason`, "
        "`attempts`, `age`, `retried`, `error`, `proven`, `cause`; with `--by cause`, `causes`: each `cause`, `size`, "
        "`agent`, `stage`, `reason`, `oldest`, `newest`, `id`, `error`; `unreachable`, `older`"
    ),
    "dead show": (
        "`id`, `kind`, `agent`, `topic`, `partition`, `offset`, `to` or `letter`, `stage`, `reason`, `attempts`, "
        "`age`, `retried`, `error`, `proven`; with `--payload`, `key` and `value`; `headers`: each `name`, `value`"
    ),
    "dead retry": "`rows`, `sent`, `groups`, `found`: how many; `refused`: the ids; `left_out`: each `id`, `why`",
    "dead archive": f"{DROPPED}; `file`",
    "dead drop": DROPPED,
    "keys ls": "`keys`: each `state`, `made`, `age`, `signs`, `proves`",
    "keys rotate": "`signs`: when the new key does; `earlier`: how many keys are older; `proves`: until when they do",
}
"""By command, in Markdown."""
