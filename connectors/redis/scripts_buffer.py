"""The Lua scripts of the aggregator buffer: inserting rows, sealing and completing batches. ARGV[1] is the name."""

from sluicegate.connectors.buffers import SET_BACK
from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with
from sluicegate.streams.contracts.leased_values import LATEST_DUE

BUFFER = """
-- order: numbers of rows; rows: number -> time (8 bytes), head, rest (msgpack); sequence: the last number
-- keys: idempotency key -> number; gone: keys of removed rows, by the end of the time for which they are remembered
-- types: type -> count of rows; group:LENGTH:NAME:GROUP: open rows of the group; deadlines: groups by deadline
-- leases: number -> token of a snapshot, or 'batch:' and the first row of the batch
-- tokens: tokens of snapshots by the end of their lease; held:LENGTH:NAME:TOKEN: the rows of the snapshot
-- batches: first row -> batch; sealed: first rows of batches by the end of their lease; holders: token -> first row
-- begins: tokens of snapshots, and first rows of batches, by the begin of their lease; keep: the longest time for which
-- an insert asked to remember keys
-- watermarks: topic partition -> next offset
-- given: group -> the newest deadline that a record gave: number of the record, what it counts from (0: 1970, 1: the
-- group's first record, 2: this record, 3: it takes the deadline away), time from then on, time of the insert ('>dBdd')
-- since: groups by the time from which that deadline counts; without those that count from 1970
-- early: group -> its early results: how many, the last record that they cover, token of the worker that makes the next
-- one (msgpack); early_due: groups by the time at which the next one is due; without those that wait for a record
-- packed, due, pack and pack-batch: see scripts_packs.py. `order` and `packed` never exist at the same time
local name = ARGV[1]
local B = P .. 'buffer:'
local KINDS = {order = 'zset', rows = 'hash', keys = 'hash', gone = 'zset', types = 'hash', leases = 'hash',
  tokens = 'zset', sealed = 'zset', batches = 'hash', holders = 'hash', deadlines = 'zset', watermarks = 'hash',
  sequence = 'string', packed = 'hash', due = 'zset', begins = 'zset', keep = 'string', given = 'hash', since = 'zset',
  early = 'hash', early_due = 'zset'}
local function key(kind) return B .. kind .. ':' .. name end
local function group_key(group) return B .. 'group:' .. #name .. ':' .. name .. ':' .. group end
local function pack_key(group) return B .. 'pack:' .. #name .. ':' .. name .. ':' .. group end
local function sealed_key(first) return B .. 'pack-batch:' .. #name .. ':' .. name .. ':' .. first end
local function held_key(token) return B .. 'held:' .. #name .. ':' .. name .. ':' .. token end
do
  local kinds = {}
  for kind, type in pairs(KINDS) do kinds[kind .. ':' .. name] = type end
  sound(kinds, B)
end
local function head_of(stored)  -- key, how long it is remembered after removal, correlation id, type, group
  local _, head = cmsgpack.unpack_one(stored, 8)
  return head
end
local function time_of(stored) return (struct.unpack('>d', stored)) end
local function batch_of(lease) return lease and string.sub(lease, 1, 6) == 'batch:' and string.sub(lease, 7) end
local function held_batch(first) return cmsgpack.unpack(redis.call('HGET', key('batches'), first)) end
local function set_attempts(first, attempts)
  local batch = held_batch(first)
  batch[3] = tonumber(attempts)
  redis.call('HSET', key('batches'), first, cmsgpack.pack(batch))
end
local function lend(kind, which, lease)  -- returns the end of the lease
  redis.call('ZADD', key('begins'), text(now), which)
  redis.call('ZADD', key(kind), text(now + lease), which)
  return text(now + lease)
end
local function end_lease(kind, which)
  redis.call('ZREM', key('begins'), which)
  redis.call('ZREM', key(kind), which)
end
local function set_leases_back()  -- one that begins later than now was given while the clock was ahead: it begins now
  local ahead = redis.call('ZRANGEBYSCORE', key('begins'), '(' .. text(now), '+inf', 'WITHSCORES')
  for i = 1, #ahead, 2 do
    local kind = redis.call('ZSCORE', key('sealed'), ahead[i]) and 'sealed' or 'tokens'
    local ends = redis.call('ZSCORE', key(kind), ahead[i])
    if ends then lend(kind, ahead[i], math.max(0, ends - ahead[i + 1])) end
  end
end
local function end_batch(first, token)
  redis.call('HDEL', key('batches'), first)
  redis.call('HDEL', key('holders'), token)
  end_lease('sealed', first)
end
local function leave_snapshot(token, rows)
  write('SREM', held_key(token), rows)
  if redis.call('EXISTS', held_key(token)) == 0 then end_lease('tokens', token) end
end
local function forget_given(group)
  redis.call('HDEL', key('given'), group)
  redis.call('ZREM', key('since'), group)
end
local function forget_early(group)
  redis.call('HDEL', key('early'), group)
  redis.call('ZREM', key('early_due'), group)
end
local function delete(rows, stored)
  local keys, gone, types, groups = {}, {}, {}, {}
  for i, each in ipairs(stored) do
    local head = head_of(each)
    keys[i] = head[1]
    if head[2] > 0 then gone[#gone + 1], gone[#gone + 2] = text(now + head[2]), head[1] end
    types[head[4]] = (types[head[4]] or 0) + 1
    groups[head[5]] = groups[head[5]] or {}
    table.insert(groups[head[5]], rows[i])
  end
  write('HDEL', key('rows'), rows)
  write('ZREM', key('order'), rows)
  write('HDEL', key('leases'), rows)
  write('HDEL', key('keys'), keys)
  write('ZADD', key('gone'), gone)
  for type, count in pairs(types) do
    if redis.call('HINCRBY', key('types'), type, -count) < 1 then redis.call('HDEL', key('types'), type) end
  end
  for group, those in pairs(groups) do
    write('ZREM', group_key(group), those)
    if redis.call('EXISTS', group_key(group)) == 0 then
      redis.call('ZREM', key('deadlines'), group)
      forget_given(group)
      if redis.call('EXISTS', pack_key(group)) == 0 then forget_early(group) end
    end
  end
end
"""

GATE = """
-- ARGV from 2: token, lease, count, time after the first row, after the last row (each or ''), whether records give
-- deadlines (1 or ''), time after which an early result is due (or ''), number of the types that have a decoder (-1:
-- all have one), these types
local token, lease, wanted = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local after_first, after_last = tonumber(ARGV[5]), tonumber(ARGV[6])
local gives, every, resolving, at = ARGV[7] == '1', tonumber(ARGV[8]), nil, 10
if ARGV[9] ~= '-1' then
  resolving = {}
  for i = 10, 9 + ARGV[9] do resolving[ARGV[i]] = true end
  at = 10 + ARGV[9]
end
local easy = nil  -- whether all rows resolve and no snapshot has a live lease; nil: not known yet
local function is_easy()
  if redis.call('ZCOUNT', key('tokens'), '(' .. text(now), '+inf') > 0 then return false end
  for _, type in ipairs(resolving and redis.call('HKEYS', key('types')) or {}) do
    if not resolving[type] then return false end
  end
  return true
end
local function resolved(rows)  -- the rows that resolve and that are not leased by a snapshot
  local found, stored, leases = {}, ask('HMGET', key('rows'), rows), ask('HMGET', key('leases'), rows)
  for i, row in ipairs(rows) do
    local ends = leases[i] and redis.call('ZSCORE', key('tokens'), leases[i])
    local taken = ends and tonumber(ends) > now
    if not taken and (not resolving or resolving[head_of(stored[i])[4]]) then found[#found + 1] = row end
  end
  return found
end
local function ready(group)  -- its rows that can be sealed, oldest first; call `take` before they leave the group
  local all = group_key(group)
  if easy == nil then easy = is_easy() end
  if easy then
    return {count = redis.call('ZCARD', all), take = function(most) return redis.call('ZRANGE', all, 0, most - 1) end}
  end
  local rows, taken = resolved(redis.call('ZRANGE', all, 0, -1)), 0
  local function take(most)
    local found = {}
    for i = taken + 1, math.min(taken + most, #rows) do found[#found + 1] = rows[i] end
    taken = taken + most
    return found
  end
  return {count = #rows, take = take}
end
-- Early results of open groups
local any_early = redis.call('EXISTS', key('early')) == 1
local function early_of(group)  -- how many, the last record that they cover, token; nil: none
  local stored = any_early and redis.call('HGET', key('early'), group)
  return stored and cmsgpack.unpack(stored)
end
local function last_of(group)  -- the number of its newest open record, nil: it has none
  local row = redis.call('ZRANGE', group_key(group), -1, -1)[1]
  if row then return tonumber(row) end
  local pack = redis.call('LINDEX', pack_key(group), -1)
  if not pack then return nil end
  local first, count = struct.unpack('>dd', pack, 9)
  return first + count - 1
end
local function expect_early(groups)
  for _, group in ipairs(every and groups or {}) do
    local state, last = early_of(group), last_of(group)
    if last and not state then
      any_early = true
      redis.call('HSET', key('early'), group, cmsgpack.pack({0, 0, ''}))
      redis.call('ZADD', key('early_due'), text(now + every), group)
    elseif last and last > state[2] then
      redis.call('ZADD', key('early_due'), 'NX', text(now + every), group)
    end
  end
end
local batches = {}
local function hand_out(first, batch, packs)
  batch[3], batch[4] = batch[3] + 1, token .. ':' .. #batches
  redis.call('HSET', key('batches'), first, cmsgpack.pack(batch))
  redis.call('HSET', key('holders'), batch[4], first)
  local ends = lend('sealed', first, lease)
  local rows, stored = {}, {}
  if batch[6] then
    rows, stored = false, packs or redis.call('LRANGE', sealed_key(first), 0, -1)
  end
  for i, each in ipairs(rows and ask('HMGET', key('rows'), batch[5]) or {}) do
    if each then rows[#rows + 1], stored[#stored + 1] = batch[5][i], each end
  end
  local results = batch[7] or 0
  batches[#batches + 1] = {first, batch[1], batch[2], batch[3], batch[4], ends, rows, stored, results, batch[8] or 0}
end
-- The members of a new batch. The early results of its group are those of the batch; `last`: its newest record
local function sealed_of(group, reason, rows, count, last)
  local state, batch = early_of(group), {group, reason, 0, '', rows, count}
  if state then
    forget_early(group)
    batch[7], batch[8] = state[1], state[2] == last and 1 or 0
  end
  return batch
end
local function forget_leases(rows)  -- removes the expired leases of snapshots
  for i, lease in ipairs(redis.call('EXISTS', key('tokens')) == 1 and ask('HMGET', key('leases'), rows) or {}) do
    if lease then leave_snapshot(lease, {rows[i]}) end
  end
end
local function seal(group, rows, reason)
  forget_leases(rows)
  local leases = {}
  for _, row in ipairs(rows) do leases[#leases + 1], leases[#leases + 2] = row, 'batch:' .. rows[1] end
  write('ZREM', group_key(group), rows)
  write('HSET', key('leases'), leases)
  hand_out(rows[1], sealed_of(group, reason, rows, false, tonumber(rows[#rows])))
end
-- Deadlines that records give
-- By the number of the record among the arguments: what the deadline counts from, and the time from then on
local function dues_of(packed)
  local dues, flat = {}, packed ~= '' and cmsgpack.unpack(packed) or {}
  for i = 1, #flat, 3 do dues[flat[i]] = {flat[i + 1], flat[i + 2]} end
  return dues
end
local function moment_of(due, first, last)  -- `first`, `last`: times of the group's first record, and of this record
  if due[1] == 3 then return math.huge end
  local begin = due[1] == 1 and first or due[1] == 2 and last or 0
  return math.max(0, math.min(begin + due[2], LATEST_DUE))
end
local newest, any_given = {}, redis.call('EXISTS', key('given')) == 1
local function give(group, row, due) newest[group] = {row, due[1], due[2], now} end
local function given_due(group, oldest, first)  -- number and time of its first open record, nil: it has none
  if not gives and not any_given then return math.huge end
  local given = newest[group]
  local stored = not given and any_given and redis.call('HGET', key('given'), group)
  if stored then given = {struct.unpack('>dBdd', stored)} end
  if not gives or not oldest or not given or given[1] < oldest or given[2] == 3 then
    forget_given(group)
    return math.huge
  end
  any_given, given[4] = true, math.min(given[4], now)
  redis.call('HSET', key('given'), group, struct.pack('>dBdd', given[1], given[2], given[3], given[4]))
  if given[2] == 0 then
    redis.call('ZREM', key('since'), group)
  else
    redis.call('ZADD', key('since'), text(given[2] == 1 and first or given[4]), group)
  end
  return moment_of({given[2], given[3]}, first, given[4])
end
local function settle(groups)  -- writes their deadlines; a group without rows has none, nor has a gate without times
  local ends, timed, none, dues = {}, {}, {}, {}
  for _, group in ipairs(groups) do
    local first = (after_first or after_last or gives) and redis.call('ZRANGE', group_key(group), 0, 0)[1]
    if first then
      timed[#timed + 1] = group
      ends[#ends + 1] = first
      ends[#ends + 1] = after_last and redis.call('ZRANGE', group_key(group), -1, -1)[1] or first
    else
      given_due(group)
      none[#none + 1] = group
    end
  end
  local stored = ask('HMGET', key('rows'), ends)
  for i, group in ipairs(timed) do
    local first, last = time_of(stored[2 * i - 1]), time_of(stored[2 * i])
    local due = math.min(first + (after_first or math.huge), last + (after_last or math.huge))
    due = math.min(due, given_due(group, tonumber(ends[2 * i - 1]), first))
    if due < math.huge then
      dues[#dues + 1], dues[#dues + 2] = text(due), group
    else
      none[#none + 1] = group
    end
  end
  write('ZADD', key('deadlines'), dues)
  if redis.call('EXISTS', key('deadlines')) == 1 then write('ZREM', key('deadlines'), none) end
end
-- A deadline that is later than any that the gate sets now, or that counts from a later time than now, was set while
-- the clock was ahead
local function beyond(kind)  -- its groups
  local least, groups, seen = math.min(after_first or math.huge, after_last or math.huge), {}, {}
  local function note(which, latest)
    local found = redis.call('ZRANGEBYSCORE', key(which), '(' .. text(latest), '+inf', 'LIMIT', 0, SET_BACK)
    for _, group in ipairs(found) do
      if not seen[group] and (which == kind or redis.call('ZSCORE', key(kind), group)) then
        seen[group], groups[#groups + 1] = true, group
      end
    end
  end
  if least < math.huge then note(kind, now + least) end
  if gives then note('since', now) end
  return groups
end
local function set_deadlines_back()  -- rows that were inserted later than now count as inserted now
  local groups = beyond('deadlines')
  for _, group in ipairs(groups) do
    local rows, written = redis.call('ZRANGE', group_key(group), 0, -1), {}
    for i, stored in ipairs(ask('HMGET', key('rows'), rows)) do
      if time_of(stored) > now then
        written[#written + 1], written[#written + 2] = rows[i], struct.pack('>d', now) .. string.sub(stored, 9)
      end
    end
    write('HSET', key('rows'), written)
  end
  settle(groups)
end
-- Seals batches of a group with `count` rows. `ends`: new rows that end it by `until` (true), or by a deadline that
-- has passed (that of the row). `first`: the time of its first row
local function fill(group, count, ends, first)
  if not ends and (not wanted or count < wanted) then return end
  local rows, batch = ready(group), {}
  for _, row in ipairs(ends and rows.count > 0 and rows.take(rows.count) or {}) do
    batch[#batch + 1] = row
    local one = ends[row]
    local over = one and (one == true or moment_of(one, first, now) <= now)
    if #batch == wanted or over then
      seal(group, batch, #batch == wanted and 'count' or one == true and 'until' or 'timeout')
      batch, first = {}, now
    end
  end
  if ends then return end
  for _ = 1, math.floor(rows.count / wanted) do seal(group, rows.take(wanted), 'count') end
end
local function finish(group, reason)
  local rows = ready(group)
  local most = math.min(rows.count, wanted or math.huge)
  if most == 0 then return end
  seal(group, rows.take(most), reason)
  settle({group})
  expect_early({group})
end
""".replace("SET_BACK", str(SET_BACK)).replace("LATEST_DUE", str(LATEST_DUE))

_REMEMBER = """
-- A key that is remembered for longer than any insert asked was removed while the clock was ahead
local function remember(keep)
  keep = math.max(keep, tonumber(redis.call('GET', key('keep')) or '0'))
  if keep == 0 then return end
  local latest, written = text(now + keep), {}
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', key('gone'), '(' .. latest, '+inf')) do
    written[#written + 1], written[#written + 2] = latest, each
  end
  redis.call('SET', key('keep'), text(keep))
  write('ZADD', key('gone'), written)
end
"""

INSERT = script_with(BUFFER, GATE, _REMEMBER)("""
-- further ARGV: topic partition of the watermark (or ''), its expected and its next offset, whether there is a gate
-- (1 or 0), how long keys are remembered, deadlines of entries (see dues_of); then of each entry: idempotency key,
-- group, type, head and rest, whether it ends its group (1 or 0)
if redis.call('EXISTS', key('packed')) == 1 then return {'packed'} end
local topic = ARGV[at]
if topic ~= '' then
  local stands = redis.call('HGET', key('watermarks'), topic) or '0'
  if tonumber(stands) ~= tonumber(ARGV[at + 1]) then return {'moved', stands} end
end
local keys, new, seen, groups, touched, ends = {}, {}, {}, {}, {}, {}
for i = at + 6, #ARGV, 5 do
  keys[#keys + 1] = ARGV[i]
  if not groups[ARGV[i + 1]] then
    groups[ARGV[i + 1]] = {}
    touched[#touched + 1] = ARGV[i + 1]
  end
end
local held = ask('HMGET', key('keys'), keys)
local gone = redis.call('EXISTS', key('gone')) == 1 and ask('ZMSCORE', key('gone'), keys)
for i, each in ipairs(keys) do
  if not held[i] and not seen[each] and not (gone and gone[i] and tonumber(gone[i]) > now) then
    seen[each] = true
    new[#new + 1] = at + 1 + 5 * i
  end
end
local counts = {}
for i, group in ipairs(touched) do
  counts[i] = redis.pcall('ZCARD', group_key(group))
  if type(counts[i]) == 'table' then error('DAMAGED ' .. group_key(group) .. ' is no zset') end
end
local number = redis.call('INCRBY', key('sequence'), #new) - #new
redis.call('ZREMRANGEBYSCORE', key('gone'), '-inf', text(now))
remember(tonumber(ARGV[at + 4]))
if topic ~= '' then redis.call('HSET', key('watermarks'), topic, ARGV[at + 2]) end
local order, rows, known, types = {}, {}, {}, {}
local stamp, dues, firsts = struct.pack('>d', now), dues_of(ARGV[at + 5]), {}
local function first_of(group)  -- the time of its first row
  if not firsts[group] then
    local oldest = redis.call('ZRANGE', group_key(group), 0, 0)[1]
    firsts[group] = oldest and time_of(redis.call('HGET', key('rows'), oldest)) or now
  end
  return firsts[group]
end
local function may_end(group, row, one)
  ends[group] = ends[group] or {}
  ends[group][row] = one
end
for n, i in ipairs(new) do
  local row, group, type = text(number + n), ARGV[i + 1], ARGV[i + 2]
  order[#order + 1], order[#order + 2] = row, row
  rows[#rows + 1], rows[#rows + 2] = row, stamp .. ARGV[i + 3]
  known[#known + 1], known[#known + 2] = ARGV[i], row
  types[type] = (types[type] or 0) + 1
  local due = gives and dues[(i - at - 1) / 5]
  if due then
    give(group, number + n, due)
    if moment_of(due, first_of(group), now) <= now then may_end(group, row, due) end
  end
  if ARGV[i + 4] == '1' then may_end(group, row, true) end
  table.insert(groups[group], row)
  table.insert(groups[group], row)
end
write('ZADD', key('order'), order)
write('HSET', key('rows'), rows)
write('HSET', key('keys'), known)
for type, count in pairs(types) do redis.call('HINCRBY', key('types'), type, count) end
for group, those in pairs(groups) do write('ZADD', group_key(group), those) end
if ARGV[at + 3] == '1' then
  for i, group in ipairs(touched) do fill(group, counts[i] + #groups[group] / 2, ends[group], firsts[group] or now) end
  settle(touched)
  expect_early(touched)
end
return {'done', #new, batches}
""")

COMPLETE = script_with(BUFFER, OUTBOX)("""
-- further ARGV: token, number of rows that did not decode, number of those that did, their numbers, the messages
local first = redis.call('HGET', key('holders'), ARGV[2])
if not first then return false end
local batch, done, mine, back = held_batch(first), arguments(5, 4 + ARGV[4]), {}, {}
if #batch[5] ~= #done + ARGV[3] then return false end
local leases = ask('HMGET', key('leases'), done)
for i, row in ipairs(done) do
  if leases[i] ~= 'batch:' .. first then return false end
  mine[row] = true
end
local stored, places = ask('HMGET', key('rows'), done), fresh(5 + ARGV[4])
outbox_sound(hashes_of(places))
for _, row in ipairs(batch[5]) do
  if not mine[row] then back[#back + 1] = row end
end
delete(done, stored)
write('HDEL', key('leases'), back)
end_batch(first, ARGV[2])
add(places)
return #done
""")

RELEASE = script_with(BUFFER)("""
-- further ARGV: token, attempts
local first = redis.call('HGET', key('holders'), ARGV[2])
if not first then return 0 end
set_attempts(first, ARGV[3])
redis.call('HDEL', key('holders'), ARGV[2])
redis.call('ZADD', key('sealed'), 0, first)
redis.call('ZREM', key('begins'), first)
return 1
""")
