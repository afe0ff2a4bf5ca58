"""Which tests a run takes.

`make test` takes the core: the same tests every day. `make test-rest` takes a part of all other tests, another part
each day. `make test-all` takes all stages of tests/stages.py whole. `SLUICEGATE_DAY=<number>` repeats the part
of that day. A rest that CI runs on a slow machine begins no test behind the time in `SLUICEGATE_END`.
"""

import os
import time
from collections.abc import Iterable
from datetime import date
from itertools import product
from zlib import crc32

import pytest

RUN = "SLUICEGATE_TESTS"  # "core" or "rest"; every test where it is not set
DAY = "SLUICEGATE_DAY"  # the ordinal of a date; set for all processes of a run, so that midnight does not divide them
END = "SLUICEGATE_END"  # seconds since 1970; no test begins behind it
NOT_BEGUN = "not begun: the time of this run was over"
DAYS = 14  # each test of the rest is run once in so many days

CORE = (
    "tests/unit/",
    "tests/golden/",
    "tests/model/",
    "tests/expressions/",
    "tests/contracts/",
    "tests/simulation/",
    "tests/soak/",
    "tests/pairs/test_effects.py",
    "tests/servers/test_disk.py",
    "tests/chaos/test_audit.py",
    "tests/chaos/test_verdict.py",
    "tests/histories/test_checker.py",
    "tests/histories/test_workloads.py",
    # A file and its commands, with real systems and real processes.
    "tests/integration/test_readme.py",
    "tests/integration/test_cli.py::test_221_run_fires_what_the_file_says_and_status_watches_it",
    "tests/integration/test_supervisor.py::test_sigterm_drains_the_workers_and_exits_0",
    "tests/integration/test_supervisor.py::test_a_killed_worker_is_started_again_and_counted",
    "tests/integration/test_expressions.py::test_filters_sums_and_routes_survive_a_kill[redis_url]",
    # Effects exactly once.
    "tests/integration/test_rebalance.py::test_219_cooperative_workers_that_come_go_and_die_lose_and_repeat_nothing",
    "tests/chaos/test_cells.py::test_no_effect_is_lost_or_repeated_when_a_worker_fails_at[before-commit-stop-redis]",
    "tests/chaos/test_twins.py::test_the_judge_finds_what_happens_without[stale-batch-before-commit-lost-sqlite-lost]",
    # Outputs written once; a reader drops copies; with transactions there are none.
    "tests/integration/test_written_once.py::test_no_row_is_written_twice[session-postgresql]",
    "tests/integration/test_kafka_transactions.py::test_rows_and_cursor_are_there_together_and_the_next_producer_hears_of_it",
    "tests/integration/test_kafka_transactions.py::test_a_producer_is_fenced_by_the_next_one_in_the_middle_of_its_transaction",
    "tests/chaos/test_chain.py::test_an_agent_counts_results_once_that_were_sent_twice[redis]",
    # Order of a key.
    "tests/integration/test_kafka_producer.py::test_223_",
    "tests/integration/test_kafka_producer.py::test_many_rows_arrive_once_and_in_order",
    "tests/chaos/test_relay.py::test_what_failed_is_sent_before_anything_newer",
    "tests/chaos/test_relay.py::test_the_judge_finds_the_order_broken_when_what_failed_goes_last",
    # Groups are never lost and never wait for traffic.
    "tests/integration/test_dispatcher.py::test_what_a_handler_schedules_comes_back_to_its_agent[sqlite:///state.db]",
    "tests/chaos/test_twins.py::test_the_judge_finds_what_happens_without[keep-state-before-commit-lost-redis-lost]",
    # A gap halts.
    "tests/integration/test_kafka_consumer.py::test_an_offset_that_retention_passed",
    "tests/integration/test_kafka_consumer.py::test_a_log_that_ends_before_what_its_epoch_held_is_truncated",
    "tests/integration/test_kafka_consumer.py::test_a_topic_made_again_has_another_id",
    "tests/chaos/test_gaps.py::test_a_partition_halts_loudly_with_its_code[changelog-incomplete-sqlite]",
    "tests/chaos/test_gaps.py::test_the_judge_finds_what_happens_without[restore-numbers",
    # Durability is checked.
    "tests/chaos/test_power_loss.py::test_what_was_sent_survives_a_power_loss_and_nothing_is_lost_or_repeated",
    "tests/chaos/test_power_loss.py::test_after_a_power_loss_on_a_disk_that_lied_the_partitions_halt",
    # What cannot be handled becomes a dead letter.
    "tests/integration/test_handler_errors.py",
    "tests/chaos/test_poison.py::test_a_record_that_killed_three_processes_becomes_a_dead_letter_and_the_rest_flows[redis]",
)
"""The core: beginnings of test ids. A folder, a file, a test, or one case of a test."""

OTHER_STORES = ("mariadb", "mongodb", "redis-cluster")
"""A contract of the core runs on memory, SQLite, Redis and PostgreSQL."""
LEASES = (
    "tests/contracts/buffer/test_leases.py",
    "tests/contracts/buffer/test_insert.py::test_a_key_that_was_removed_is_known_for_the_time_asked",
    "tests/contracts/timeouts/test_clocks.py",
    "tests/contracts/timeouts/test_leases.py",
)
"""Contracts that wait until a lease ends: in the core on memory and SQLite."""
SERVERS = ("[postgresql", "[redis")
_UNREACHED = (
    "store_that_cannot_be_reached_ends_with_3_and_its_password_is_not_said",
    "broker_that_cannot_be_reached_ends_with_3",
)
LONG = (
    # Every evaluation of many expressions, in CPU time.
    "tests/expressions/test_bounds.py",
    # A file's test, with a death at each of its places.
    "tests/unit/leased/test_schedules.py::test_an_agent_gets_each_time_once_whatever_dies[crash]",
    # A browser and a run with 10,000 groups.
    "tests/integration/console/",
    "tests/soak/test_soak.py",
    "tests/soak/test_calm.py",
    "tests/simulation/test_seeds.py::test_the_seeds_of_the_day",
    "tests/simulation/test_seeds.py::test_the_swarms_of_the_day",
    "tests/simulation/dispatch/test_dispatching.py::test_the_seeds_of_the_day",
    # The long state machine of the buffer.
    "tests/contracts/buffer/test_machine.py",
    # All pairs of keys are played.
    "tests/pairs/test_effects.py::test_what_changes_nothing_stands_in_the_list",
    # Servers and processes that are killed, stopped or cut off.
    "tests/contracts/test_killed_inside.py",
    "tests/contracts/test_lost_connections.py",
    "tests/contracts/test_power_loss.py",
    "tests/contracts/test_processes.py",
    "tests/contracts/test_redis_failover.py",
    "tests/contracts/test_sessions_processes.py",
    "tests/contracts/test_sessions_sql_failures.py",
    "tests/contracts/test_sql_servers.py",
    "tests/contracts/buffer/test_processes.py",
    "tests/contracts/outbox/test_processes.py",
    "tests/contracts/timeouts/test_processes.py",
    # Tests of files that are played once for each place where a process can die.
    "tests/unit/lookups/test_document.py::test_its_file_passes_its_own_tests_with_a_death_at_every_place",
    "tests/unit/lookups/test_play.py",
    "tests/unit/testing/test_expressions.py::test_no_death_anywhere_changes_that",
    "tests/expressions/test_files.py::test_the_file_does_what_its_tests_say_wherever_a_process_dies",
    "tests/unit/testing/test_formats_doc.py::test_its_file_passes_its_own_tests_with_a_death_at_every_place",
    "tests/unit/testing/test_sql_sessions.py",
    "tests/unit/correlation/test_completed.py::test_a_death_at_any_place_loses_and_repeats_nothing",
    "tests/unit/correlation/test_legs.py::test_a_leg_drops_what_its_producer_wrote_twice",
    "tests/unit/correlation/test_legs.py::test_a_leg_of_events_meets_a_leg_of_messages",
    "tests/unit/correlation/test_legs.py::test_conditions_and_computed_fields_of_the_agent_hold_for_each_leg",
    "tests/unit/correlation/test_legs.py::test_the_page_has_an_example",
    "tests/unit/lookups/test_apart.py::test_the_file_of_the_page_does_what_the_page_says",
    "tests/unit/lookups/test_apart.py::test_the_tests_of_a_file_hold_with_a_death_anywhere",
    "tests/unit/one_place/test_reducer.py::test_its_tests_pass_with_a_death_at_every_place",
    "tests/unit/testing/test_avro.py::test_a_death_at_any_place_changes_nothing",
    "tests/unit/testing/test_forwarded_formats.py",
    "tests/unit/testing/test_handled.py",
    "tests/unit/testing/test_play.py",
    "tests/unit/testing/test_selected_formats.py",
    "tests/unit/testing/test_several_windows.py",
    "tests/unit/windows/test_document.py::test_its_files_pass_their_own_tests_with_a_death_at_every_place",
    "tests/unit/shadow/test_call_handlers.py::test_the_handler_fails_as_it_did",
    "tests/unit/testing/test_deploy_step.py::test_a_rule_is_deployed_in_the_middle_of_a_test",
    # Random histories, and stores with a mutated statement.
    "tests/unit/engine/test_rebuild_any.py",
    "tests/unit/oracle/test_oracle.py::test_the_seeds_of_the_day",
    "tests/unit/engine/test_rebuild_windows.py",
    "tests/unit/schemas/test_avro.py::test_any_bytes_give_a_record_or_a_decode_error",
    "tests/unit/schemas/test_avro.py::test_damaged_bytes_are_a_record_for_us_if_they_are_one_for_the_judge",
    "tests/contracts/test_machine.py::test_a_store_that_differs_in_one_statement_is_found",
    # Terminals, and waits of several seconds.
    "tests/unit/cli/test_shown.py",
    "tests/unit/cli/test_status_shown.py",
    "tests/unit/engine/test_held.py::test_a_given_up_message_in_a_session_does_not_make_the_others_run_again_and_again",
    "tests/unit/leased/test_suspects.py::test_what_waits_in_hand_meanwhile_does_not_die_with_it",
    "tests/contracts/buffer/test_packs.py",
    "tests/contracts/buffer/test_retried_groups.py",
    "tests/contracts/buffer/test_release.py::test_067_no_operation_waits_without_an_end[postgresql]",
    "tests/contracts/dispatcher/test_care.py::test_187_",
    # Processes for each store.
    "tests/unit/cli/test_init.py::test_what_it_writes_passes_its_own_tests_at_once",
    "tests/unit/cli/test_init.py::test_its_tests_for_pytest_pass",
    "tests/unit/cli/test_init.py::test_its_tests_pass_with_a_death_at_every_place",
    # Many seeds, many cases of one thing, and mutants of it.
    *(f"tests/unit/engine/test_correlate.py::test_correlations_are_those_of_the_oracle[{digit}" for digit in "1235"),
    "tests/unit/engine/test_deployments.py::test_a_mutant",
    "tests/unit/testing/test_events_of_formats.py",
    "tests/unit/testing/test_windows.py::test_windows_go_together_with",
    "tests/unit/shadow/test_windows.py::test_what_a_worker_published_of_windows_is_identical_whatever_crashed",
    "tests/unit/shadow/test_history.py::test_what_a_worker_did_is_identical_whatever_crashed",
    "tests/unit/aggregation/test_loop.py::test_a_stage_that_is_wrong_is_seen",
    "tests/unit/oracle/test_oracle.py::test_any_file_and_any_records_give_what_plain_python_says",
    "tests/contracts/buffer/test_firing.py",
    "tests/contracts/strategies/test_strategies.py::test_207_",
    # Another program judges; every form of an expression; the pages that a program writes.
    "tests/unit/schemas/test_avro_java.py",
    "tests/unit/schemas/test_documents.py",
    "tests/unit/expressions/test_forms.py",
    "tests/unit/docs/test_reference_pages.py",
    # Large state spaces, and mutants of the model.
    "tests/model/test_protocol.py::test_every_kind_of_fault_was_taken",
    "tests/model/test_protocol.py::test_a_missing_protection_breaks_its_promise",
    *(
        f"tests/model/test_protocol.py::test_the_protocol_keeps_every_promise_in_every_reachable_state[{scenario}"
        for scenario in ("deployed", "rewind", "origins-time", "zombie", "marks")
    ),
    # Real poolers beside every command; the long state machine; mutants of the judge of expressions.
    "tests/contracts/test_poolers.py::test_a_pooler_that_shares_connections_is_refused_by_every_command",
    *(
        f"tests/contracts/test_machine.py::test_any_sequence_of_operations_gives_what_the_memory_store_gives[{store}"
        for store in ("postgresql", "redis")
    ),
    "tests/expressions/test_judge.py::test_twin",
    "tests/unit/windows/test_same_early.py::test_any_cut_and_any_crash_give_the_early_results_of_the_oracle",
    "tests/unit/windows/test_early_document.py::test_its_file_passes_its_own_tests_with_a_death_at_every_place",
    "tests/unit/aggregation/test_deadlines.py::test_1000_random_logs_cut_anywhere_with_crashes_give_the_fires_of_the_oracle",
    "tests/simulation/test_once.py::test_no_seed_writes_a_row_twice",
    "tests/unit/windows/test_same_calendar.py::test_any_cut_and_any_crash_give_the_windows_of_the_oracle",
    "tests/unit/windows/test_same_calendar.py::test_boundaries_are_what_a_wall_clock_shows",
    "tests/unit/windows/test_same_hopping.py",
    "tests/unit/windows/test_same_late.py",
    "tests/unit/windows/test_same_overlapping.py",
    "tests/unit/windows/test_same_sessions.py",
    *(
        f"tests/unit/windows/test_same_sliding.py::test_{name}"
        for name in ("any", "the", "reducers", "a_re", "a_window", "last", "a_total", "a_least", "a_sum_that")
    ),
    "tests/unit/windows/test_same_as_kafka_streams.py",
    "tests/unit/correlation/test_same_as_kafka_streams.py",
    "tests/unit/windows/test_same_windows.py::test_a_grace_that_is_one_millisecond_off_is_found",
    "tests/unit/windows/test_same_windows.py::test_any_cut_and_any_crash_give_the_windows_of_the_oracle",
    # Random files, records and cuts, and their twins, that take longer than a second or two. One of each kind stays.
    "tests/contracts/test_sql_levels.py",
    "tests/expressions/test_judge.py::test_the_exact_form_equals_cel_cpp",
    "tests/unit/aggregation/test_deadlines.py::test_the_careful_way",
    "tests/unit/aggregation/test_deadlines.py::test_with_early_results_the_groups_end_as_without_them",
    "tests/unit/aggregation/test_let.py::test_any_cut_and_any_crash",
    "tests/unit/aggregation/test_where.py::test_any_cut_and_any_crash",
    "tests/unit/aggregation/test_same_fires.py::test_without",
    "tests/unit/aggregation/test_same_fires.py::test_with_one_entry_dropped",
    "tests/unit/app/test_programs.py",
    "tests/unit/app/test_yaml.py::test_any_document_is_read_back_as_it_was_written",
    "tests/unit/cli/test_test_command.py::test_without_a_protection_it_says_which_place_was_not_survived",
    "tests/unit/config/test_any_file.py",
    "tests/unit/correlation/test_document.py",
    "tests/unit/demo/test_flights.py::test_every_flight_of_the_file_is_counted",
    "tests/unit/engine/test_cloud_events_document.py",
    "tests/unit/engine/test_deployments.py::test_each_record_is_in_one_result_of_one_rule",
    "tests/unit/engine/test_sessions.py::test_a_batch_with_a_bad_message_comes_to_the_same_as_one_by_one",
    "tests/unit/engine/test_signals.py::test_without",
    "tests/unit/expressions/test_any_tree.py",
    "tests/unit/expressions/test_words.py::test_the_canonical_text_of_any_tree",
    "tests/unit/lookups/test_shared.py",
    "tests/unit/one_place/",
    "tests/unit/shadow/test_audit.py",
    "tests/unit/shadow/test_call_handlers.py",
    "tests/unit/shadow/test_correlations.py",
    "tests/unit/shadow/test_corrections.py",
    "tests/unit/shadow/test_corrections_windows.py",
    "tests/unit/shadow/test_other_timeout.py",
    "tests/unit/test_drawings.py::test_a_name_that_the_code_does_not_have_is_found",
    "tests/unit/test_protocol_page.py::test_a_name_that_the_code_does_not_have_is_found",
    "tests/unit/testing/test_deploy_step.py",
    "tests/unit/testing/test_handler_routes.py",
    "tests/unit/testing/test_replaced.py",
    "tests/unit/testing/test_saga.py",
    "tests/unit/testing/test_timers.py",
    "tests/unit/testing/test_windows.py::test_a_handler_gets_the_window",
    "tests/unit/windows/test_fold.py",
    "tests/unit/windows/test_same_windows.py::test_records_that_are_judged_by_batch_are_found",
    "tests/unit/windows/test_same_windows.py::test_silence_that_moves",
    "tests/unit/windows/test_same_windows.py::test_a_watermark_that_is_not_in_the_compacted_log_is_found",
    "tests/simulation/test_mutants.py",
    "tests/unit/test_selection.py",
    "tests/unit/testing/test_early_handlers.py::test_a_session",
    "tests/unit/testing/test_early_handlers.py::test_an_early_result_at_which_the_handler_fails",
    "tests/unit/aggregation/test_until.py::test_any_cut_and_any_crash",
    "tests/unit/cli/test_dead_shared.py::test_a_command_that_is_killed_anywhere",
    "tests/unit/cli/test_dead_shared.py::test_without_the_watermark",
    "tests/unit/cli/test_test_command.py::test_with_crash_it_says_what_was_survived",
    "tests/unit/engine/test_deployments.py::test_each_record_is_in_one_result_while_records_are_read_again",
    "tests/unit/windows/test_same_calendar.py::test_days_of_24_hours",
    "tests/unit/windows/test_same_calendar.py::test_midnight_by",
    "tests/unit/windows/test_same_calendar.py::test_an_end_that",
    # Files that die at each place, and logs with each cut.
    "tests/unit/tables/test_document.py",
    "tests/unit/tables/test_oracle.py",
    "tests/unit/statistics/test_page.py::test_its_file_passes_its_own_tests_with_a_death_at_every_place",
    "tests/unit/testing/test_early_handlers.py::test_a_handler_is_called_for_each_result",
    "tests/unit/testing/test_plugin.py",
    "tests/unit/shadow/test_windows.py",
    "tests/unit/engine/test_rebuild_correlations.py",
    "tests/unit/windows/test_same_windows.py::test_a_restore",
    "tests/unit/windows/test_same_calendar.py::test_a_few_logs",
    "tests/unit/aggregation/test_same_fires.py::test_a_long_run",
    *(
        f"tests/model/test_protocol.py::test_the_protocol_keeps_every_promise_in_every_reachable_state[{scenario}"
        for scenario in ("changed-bytes", "transactions-lost", "window", "idle", "late", "relay")
    ),
    # Each waits for a server that does not answer; the first case of each command stays.
    "tests/unit/cli/test_eval.py::test_brokers_that_do_not_answer_end_with_3",
    "tests/unit/cli/test_plan.py::test_another_password_is_the_same_store",
    "tests/unit/cli/test_plan.py::test_another_store_carries_nothing_over_and_shows_no_password",
    "tests/unit/cli/test_replay.py::test_without_kafka_it_says_so_and_writes_no_state",
    *(f"tests/unit/cli/test_commands.py::test_a_{system}[args{n}" for system, n in product(_UNREACHED, (1, 2, 3))),
)
"""What the core leaves out of its folders."""

EACH_DAY = (
    "tests/simulation/test_seeds.py",
    "tests/simulation/dispatch/",
    "tests/fuzz/",
    "tests/soak/test_soak.py",
    "tests/pairs/",
    "tests/unit/test_selection.py",
    "tests/unit/docs/test_reference_pages.py",
    "tests/unit/schemas/test_documents.py",
)
"""Of the rest, what runs every day: the date chooses its seeds, or nothing else sees what it sees."""
PART = (
    "tests/fuzz/test_loop.py",
    "tests/fuzz/test_typed.py",
    "tests/fuzz/test_avro.py",
    "tests/fuzz/test_cost.py",
    "tests/pairs/test_effects.py",
)
"""A part of them each day is enough: they have the same seeds every day, or take minutes."""


def run() -> str:
    return os.environ.get(RUN, "")


def today() -> int:
    return int(os.environ.get(DAY) or date.today().toordinal())


def is_over() -> bool:
    return time.time() > float(os.environ.get(END) or "inf")


def is_core(test: str) -> bool:
    elsewhere = test.startswith("tests/contracts/") and any(store in test.lower() for store in OTHER_STORES)
    elsewhere = elsewhere or (test.startswith(LEASES) and any(store in test for store in SERVERS))
    return test.startswith(CORE) and not test.startswith(LONG) and not elsewhere


def is_rest(test: str) -> bool:
    return not is_core(test)


def is_due(test: str, day: int) -> bool:
    """Is it the day of this test of the rest? That depends on nothing but its id, so a test that is tried again is due
    again."""
    each_day = test.startswith(EACH_DAY) and not test.startswith(PART)
    return each_day or (crc32(test.encode()) + day) % DAYS == 0


def taken(tests: Iterable[str], run: str, day: int) -> set[str]:
    if run == "core":
        return {test for test in tests if is_core(test)}
    if run == "rest":
        return {test for test in tests if is_rest(test) and is_due(test, day)}
    return set(tests)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run does not take."""
    mine = taken([item.nodeid for item in items], run(), today())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in mine])
    items[:] = [item for item in items if item.nodeid in mine]
