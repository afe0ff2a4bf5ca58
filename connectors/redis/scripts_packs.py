"""The Lua scripts of the aggregator buffer: packs, and the batches of rows and of packs. ARGV[1] is the name.

A buffer never holds open rows and open packs at the same time. Packs become rows when a caller asks for rows.
"""

from sluicegate.connectors.redis.scripts_buffer import BUFFER, GATE
from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with

_PACKS = """
-- packed: group -> number of open records, time of the first, deadline (8 bytes each); due: groups by deadline
-- pack:LENGTH:NAME:GROUP: the open packs of the group, the oldest first
-- pack-batch:LENGTH:NAME:FIRST: the packs of a sealed batch; the batch's sixth field in `batches` counts its records
-- A pack: time, number of its first record, count of records, count of records before them that were cut off (8 bytes
-- each), then the data of packs.py, which scripts do not read
local function number_of(stored) return (struct.unpack('>d', stored, 9)) end
local function items_of(stored) return (struct.unpack('>d', stored, 17)) end
local function cut(stored, most)  -- returns a pack of the first `most` records, and a pack of the others
  local number, count, skipped = number_of(stored), items_of(stored), struct.unpack('>d', stored, 25)
  local rest = struct.pack('>ddd', number + most, count - most, skipped + most)
  return string.sub(stored, 1, 16) .. struct.pack('>d', most) .. string.sub(stored, 25),
    string.sub(stored, 1, 8) .. rest .. string.sub(stored, 33)
end
"""

_OPEN = """
-- Moves the group's oldest `most` records, or all, into a batch
-- Returns their packs, the count of their records, and the pack that is the group's oldest now, if it was read
local function take(group, most)
  local source, packs, seen, count, following = pack_key(group), {}, 0, 0, nil
  repeat
    local page = redis.call('LRANGE', source, seen, seen + 999)
    for _, each in ipairs(page) do
      if count < most then
        packs[#packs + 1], count = each, count + items_of(each)
      else
        following = following or each
      end
    end
    seen = seen + #page
  until count >= most or #page < 1000
  local all = not following and (seen < 1000 or redis.call('LLEN', source) == #packs)
  local target, rest = sealed_key(text(number_of(packs[1]))), nil
  if count > most then
    packs[#packs], rest = cut(packs[#packs], items_of(packs[#packs]) - (count - most))
  end
  if all then
    redis.call('RENAME', source, target)
    if rest then redis.call('LSET', target, -1, packs[#packs]) end
  else
    redis.call('LTRIM', source, #packs, -1)
    write('RPUSH', target, packs)
  end
  if rest then redis.call('LPUSH', source, rest) end
  return packs, math.min(count, most), rest or following
end
local function state_of(found)
  if not found then return {0, nil, math.huge} end
  return {struct.unpack('>ddd', found)}
end
local function seal_packs(group, state, most, reason)
  local packs, count, oldest = take(group, most)
  state[1] = state[1] - count
  state[2] = state[1] > 0 and time_of(oldest or redis.call('LINDEX', pack_key(group), 0)) or nil
  local first = text(number_of(packs[1]))
  local last = number_of(packs[#packs]) + items_of(packs[#packs]) - 1
  hand_out(first, sealed_of(group, reason, {}, count, last), packs)
end
local function settle_packs(groups, states, last)  -- `last`: time of the last record, nil: read it
  local kept, gone, timed, untimed = {}, {}, {}, {}
  for i, group in ipairs(groups) do
    local state, ends = states[i], math.huge
    if state[1] > 0 then
      if after_first then ends = state[2] + after_first end
      if after_last then
        ends = math.min(ends, (last or time_of(redis.call('LINDEX', pack_key(group), -1))) + after_last)
      end
      local oldest = gives and number_of(redis.call('LINDEX', pack_key(group), 0))
      ends = math.min(ends, given_due(group, oldest, state[2]))
      kept[#kept + 1], kept[#kept + 2] = group, struct.pack('>ddd', state[1], state[2], ends)
    else
      given_due(group)
      gone[#gone + 1] = group
    end
    if ends == math.huge then
      if state[3] < math.huge then untimed[#untimed + 1] = group end
    elseif ends ~= state[3] then
      timed[#timed + 1], timed[#timed + 2] = text(ends), group
    end
  end
  write('HSET', key('packed'), kept)
  write('HDEL', key('packed'), gone)
  write('ZADD', key('due'), timed)
  write('ZREM', key('due'), untimed)
end
local function set_packs_back()  -- as set_deadlines_back
  local groups, states, stamp = beyond('due'), {}, struct.pack('>d', now)
  for i, group in ipairs(groups) do
    local state, place = state_of(redis.call('HGET', key('packed'), group)), 0
    repeat
      local page = redis.call('LRANGE', pack_key(group), place, place + 999)
      for n, pack in ipairs(page) do
        if time_of(pack) > now then redis.call('LSET', pack_key(group), place + n - 1, stamp .. string.sub(pack, 9)) end
      end
      place = place + #page
    until #page < 1000
    state[2], states[i] = state[2] and math.min(state[2], now), state
  end
  settle_packs(groups, states)
end
local resolves = not resolving or resolving.pack
local function finish_packs(group, reason)
  local state = state_of(redis.call('HGET', key('packed'), group))
  if not resolves or state[1] == 0 then return end
  seal_packs(group, state, wanted or math.huge, reason)
  settle_packs({group}, {state})
  expect_early({group})
end
"""

_sealing_script = script_with(BUFFER, GATE, _PACKS, _OPEN)

INSERT_PACKS = _sealing_script("""
-- further ARGV: topic partition of the watermark, its expected and its next offset; of each pack whether it ends its
-- group (a text of 1 and 0, empty: none does); deadlines of packs (see dues_of), each given by the last record; then of
-- each pack: group, the pack without its first two fields
if redis.call('EXISTS', key('order')) == 1 then return {'rows'} end
local topic = ARGV[at]
local stands = redis.call('HGET', key('watermarks'), topic) or '0'
if tonumber(stands) ~= tonumber(ARGV[at + 1]) then return {'moved', stands} end
local groups, places, lasts, before = {}, {}, {}, tonumber(redis.call('GET', key('sequence')) or '0')
local number, stamp = before + 1, struct.pack('>d', now)
local function push(i)
  local group, pack = ARGV[i], ARGV[i + 1]
  local answer = redis.pcall('RPUSH', pack_key(group), stamp .. struct.pack('>d', number) .. pack)
  if type(answer) == 'table' then  -- nothing else was written yet
    for k = at + 5, i - 2, 2 do redis.call('RPOP', pack_key(ARGV[k])) end
    error('DAMAGED ' .. pack_key(group) .. ' is not a list')
  end
  number = number + struct.unpack('>d', pack)
  lasts[i] = number - 1
  if not places[group] then
    groups[#groups + 1] = group
    places[group] = #groups
  end
end
for i = at + 5, #ARGV, 2 do push(i) end
local states, dues, total = {}, dues_of(ARGV[at + 4]), number - 1 - before
for i, found in ipairs(ask('HMGET', key('packed'), groups)) do states[i] = state_of(found) end
redis.call('INCRBY', key('sequence'), total)
redis.call('HSET', key('watermarks'), topic, ARGV[at + 2])
if total > 0 then redis.call('HINCRBY', key('types'), 'pack', total) end
for i = at + 5, #ARGV, 2 do
  local group, nth = ARGV[i], (i - at - 3) / 2
  local state, one, due = states[places[group]], string.byte(ARGV[at + 3], nth) == 49, gives and dues[nth]
  state[1], state[2] = state[1] + struct.unpack('>d', ARGV[i + 1]), state[2] or now
  while wanted and resolves and state[1] >= wanted do seal_packs(group, state, wanted, 'count') end
  if one and resolves and state[1] > 0 then seal_packs(group, state, state[1], 'until') end
  if due then
    give(group, lasts[i], due)
    local over = resolves and state[1] > 0 and moment_of(due, state[2], now) <= now
    if over then seal_packs(group, state, state[1], 'timeout') end
  end
end
settle_packs(groups, states, now)
expect_early(groups)
return {'done', batches}
""")

DUE = _sealing_script("""
-- further ARGV: limit
set_leases_back()
set_deadlines_back()
set_packs_back()
local most = tonumber(ARGV[at])
for _, first in ipairs(redis.call('ZRANGEBYSCORE', key('sealed'), '-inf', text(now), 'LIMIT', 0, most)) do
  local batch = held_batch(first)
  redis.call('HDEL', key('holders'), batch[4])
  hand_out(first, batch)
end
for _, group in ipairs(redis.call('ZRANGEBYSCORE', key('deadlines'), '-inf', text(now))) do
  if #batches >= most then break end
  finish(group, 'timeout')
end
for _, group in ipairs(redis.call('ZRANGEBYSCORE', key('due'), '-inf', text(now), 'LIMIT', 0, most - #batches)) do
  finish_packs(group, 'timeout')
end
return batches
""")

SEAL = _sealing_script("""
-- further ARGV: group
finish_packs(ARGV[at], 'manual')
if #batches == 0 then finish(ARGV[at], 'manual') end
return batches[1] or false
""")

COMPLETE_PACKS = script_with(BUFFER, OUTBOX)("""
-- further ARGV: number of batches; of each its token and the number of its messages; then all messages
-- Returns of each batch: 1 completed, 0 not
local many, done, firsts, mine, wanted, total = tonumber(ARGV[2]), {}, {}, {}, {}, 0
for i = 1, many do
  local first, messages = redis.call('HGET', key('holders'), ARGV[1 + 2 * i]), tonumber(ARGV[2 + 2 * i])
  local held = first and redis.call('HGET', key('batches'), first)
  local batch = held and not mine[first] and cmsgpack.unpack(held)
  local good = batch and batch[6] and true or false
  if good then
    mine[first], firsts[#firsts + 1], total = true, first, total + batch[6]
  end
  done[i] = good and 1 or 0
  for _ = 1, messages do wanted[#wanted + 1] = good end
end
local places = fresh(3 + 2 * many, wanted)
outbox_sound(hashes_of(places))
local tokens = {}
for i = 1, many do
  if done[i] == 1 then tokens[#tokens + 1] = ARGV[1 + 2 * i] end
end
for _, first in ipairs(firsts) do redis.call('UNLINK', sealed_key(first)) end
write('HDEL', key('batches'), firsts)
write('HDEL', key('holders'), tokens)
write('ZREM', key('sealed'), firsts)
write('ZREM', key('begins'), firsts)
if total > 0 and redis.call('HINCRBY', key('types'), 'pack', -total) < 1 then
  redis.call('HDEL', key('types'), 'pack')
end
add(places)
return done
""")

UNPACK = script_with(BUFFER, _PACKS)("""
-- further ARGV: group, number of packs, the second and third field of each (16 bytes), then of each record its number,
-- its idempotency key and its row
-- The group's open packs become these rows and keep their deadline. Returns false when the group has other packs now
local group, many, order, rows, known = ARGV[2], tonumber(ARGV[3]), {}, {}, {}
local packs = redis.call('LRANGE', pack_key(group), 0, -1)
if #packs ~= many then return false end
for i, stored in ipairs(packs) do
  if string.sub(stored, 9, 24) ~= ARGV[3 + i] then return false end
end
for i = 4 + many, #ARGV, 3 do
  order[#order + 1], order[#order + 2] = ARGV[i], ARGV[i]
  known[#known + 1], known[#known + 2] = ARGV[i + 1], ARGV[i]
  rows[#rows + 1], rows[#rows + 2] = ARGV[i], ARGV[i + 2]
end
write('ZADD', key('order'), order)
write('ZADD', group_key(group), order)
write('HSET', key('rows'), rows)
write('HSET', key('keys'), known)
local ends = redis.call('ZSCORE', key('due'), group)
if ends then redis.call('ZADD', key('deadlines'), ends, group) end
redis.call('ZREM', key('due'), group)
redis.call('HDEL', key('packed'), group)
redis.call('UNLINK', pack_key(group))
return #order / 2
""")

LISTS = script_with(BUFFER)("""
-- Returns key and group of each list of packs. Open ones come first: a pack that is sealed meanwhile is then in one of
-- the lists
local found = {}
for _, group in ipairs(redis.call('HKEYS', key('packed'))) do found[#found + 1] = {pack_key(group), group} end
for _, first in ipairs(redis.call('HKEYS', key('batches'))) do
  local batch = held_batch(first)
  if batch[6] then found[#found + 1] = {sealed_key(first), batch[1]} end
end
return found
""")
