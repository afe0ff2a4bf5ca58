"""The Lua scripts of the outbox: adding, claiming, marking."""

from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with

_script = script_with(OUTBOX)

ADD = _script("""
-- ARGV: id, hash of the key, message of each row. Returns how many were new
local places = fresh(1)
outbox_sound(hashes_of(places))
add(places)
return #places
""")

SET_LANES = _script("""
local count = pending()
if count == 0 then redis.call('SET', O .. 'lanes', ARGV[1]) end
return count
""")

_READ = """
local function array(rows) return '\\221' .. struct.pack('>I4', #rows) .. table.concat(rows) end
local NEVER = {0, 0, ''}
local function failed(ids)  -- attempts, time of the next one, reason of death, of each row; nil when no row has failed
  if redis.call('EXISTS', O .. 'failed') == 0 then return end
  local found = ask('HMGET', O .. 'failed', ids)
  for i = 1, #ids do found[i] = found[i] and cmsgpack.unpack(found[i]) or NEVER end
  return found
end
local function lasting(ends) return ends and tonumber(ends) > now end
"""

_CLAIM = (
    _READ
    + """
local function claim(lane, lease)  -- returns the end of the lease
  redis.call('HSET', O .. 'begins', lane, text(now))
  redis.call('HSET', O .. 'ends', lane, text(now + lease))
  return text(now + lease)
end
-- A lease that begins later than now was given while the clock was ahead: it begins now
local function set_lane_back(lane)
  local begin = redis.call('HGET', O .. 'begins', lane)
  if not lasting(begin) then return end
  claim(lane, redis.call('HGET', O .. 'ends', lane) - begin)
end
local function set_rows_back()
  local ahead, begins, ends = redis.call('ZRANGEBYSCORE', O .. 'taken', '(' .. text(now), '+inf', 'WITHSCORES'), {}, {}
  for i = 1, #ahead, 2 do
    local till = redis.call('ZSCORE', O .. 'leased', ahead[i])
    begins[i], begins[i + 1] = text(now), ahead[i]
    ends[i], ends[i + 1] = text(now + (till or now) - ahead[i + 1]), ahead[i]
  end
  write('ZADD', O .. 'taken', begins)
  write('ZADD', O .. 'leased', ends)
end
-- Until when a failed row waits. One that waits for longer than any pause failed while the clock was ahead
local function rests(till, pause) return till > now + pause and 0 or till end
"""
)

CLAIM = script_with(OUTBOX, _CLAIM)("""
-- ARGV: lane, token, limit, after, lease, longest pause of a row that failed
if tonumber(ARGV[1]) >= total then return total end
local holder = redis.call('HGET', O .. 'holders', ARGV[1])
local ends = redis.call('HGET', O .. 'ends', ARGV[1])
if holder and holder ~= ARGV[2] and lasting(ends) then
  set_lane_back(ARGV[1])
  return false
end
set_rows_back()
local function pending(...)  -- ids, their failures, and until when each waits: in back-off, or leased by itself
  local ids = redis.call('ZRANGEBYSCORE', O .. 'lane:' .. ARGV[1], ...)
  local tries = failed(ids)
  local taken = redis.call('EXISTS', O .. 'leased') == 1 and ask('ZMSCORE', O .. 'leased', ids)
  local waits = (tries or taken) and {}
  for i = 1, waits and #ids or 0 do
    waits[i] = math.max(tries and rests(tries[i][2], ARGV[6]) or 0, tonumber(taken and taken[i] or 0))
  end
  return ids, tries, waits
end
local function numbers_of(ids)  -- only the first number when they are consecutive, as they mostly are
  if #ids == 0 then return {} end
  local ends = redis.call('ZMSCORE', O .. 'lane:' .. ARGV[1], ids[1], ids[#ids])
  if ends[2] - ends[1] == #ids - 1 then return {tonumber(ends[1])} end
  local numbers = ask('ZMSCORE', O .. 'lane:' .. ARGV[1], ids)
  for i, each in ipairs(numbers) do numbers[i] = tonumber(each) end
  return numbers
end
local function until_free(waits)
  for i, each in ipairs(waits or {}) do
    if each > now then return i, each end
  end
end
local blocked, ids, tries, waits, first = nil, {}, nil, nil, nil
if ARGV[4] ~= '0' and redis.call('EXISTS', O .. 'failed', O .. 'leased') > 0 then
  ids, tries, waits = pending('-inf', ARGV[4])
  first, blocked = until_free(waits)
  ids = {}
end
if not blocked then
  ids, tries, waits = pending('(' .. ARGV[4], '+inf', 'LIMIT', 0, ARGV[3])
  first, blocked = until_free(waits)
end
for i = #ids, first or #ids + 1, -1 do ids[i] = nil end
local stored, attempts = ask('HMGET', O .. 'rows', ids), {}
for i = 1, tries and #ids or 0 do attempts[i] = tries[i][1] end
redis.call('HSET', O .. 'holders', ARGV[1], ARGV[2])
local till = claim(ARGV[1], ARGV[5])
return {till, #ids == 0 and blocked and text(blocked) or '', numbers_of(ids), attempts, array(stored)}
""")

CLAIM_ANY = script_with(OUTBOX, _CLAIM)("""
-- ARGV: token, limit, lease, longest pause of a row that failed
sound(KINDS, O)
set_rows_back()
local ends, held = redis.call('HGETALL', O .. 'ends'), {}
for i = 1, #ends, 2 do
  set_lane_back(ends[i])
  held['lane:' .. ends[i]] = lasting(ends[i + 1])
end
local rows, numbers, attempts, leases, begins, tokens = {}, {}, {}, {}, {}, {}
local limit, till = tonumber(ARGV[2]), text(now + ARGV[3])
local function take(ids)
  local stored, tries, taken = ask('HMGET', O .. 'rows', ids), failed(ids), ask('ZMSCORE', O .. 'leased', ids)
  for i, id in ipairs(ids) do
    if #rows == limit then return end
    local tried = tries and tries[i] or NEVER
    if rests(tried[2], ARGV[4]) <= now and not lasting(taken[i]) then
      rows[#rows + 1], numbers[#numbers + 1], attempts[#attempts + 1] = stored[i], place_of(stored[i]), tried[1]
      leases[#leases + 1], leases[#leases + 2] = till, id
      begins[#begins + 1], begins[#begins + 2] = text(now), id
      tokens[#tokens + 1], tokens[#tokens + 2] = id, ARGV[1]
    end
  end
end
for i = 1, total do
  local lane, first = lane_key(now + i), 0  -- calls begin with different lanes
  while not held[lane] and #rows < limit do
    local ids = redis.call('ZRANGE', O .. lane, first, first + 999)
    take(ids)
    first = first + 1000
    if #ids < 1000 then break end
  end
end
write('ZADD', O .. 'leased', leases)
write('ZADD', O .. 'taken', begins)
write('HSET', O .. 'tokens', tokens)
return {till, '', numbers, attempts, array(rows)}
""")

_FENCE = """
-- ARGV: lane (negative: rows that are leased one by one), token
local any = tonumber(ARGV[1]) < 0
if not any and redis.call('HGET', O .. 'holders', ARGV[1]) ~= ARGV[2] then return 0 end
sound(KINDS, O)
"""

MARK_ALL = script_with(OUTBOX, _FENCE)("""
-- further ARGV: first and last number of a batch of which all rows were sent, number of its rows
-- Returns 2, and marks nothing, when the lane holds fewer or more rows in this range
local lane, sent, moment = O .. 'lane:' .. ARGV[1], {}, text(now)
local ids = redis.call('ZRANGEBYSCORE', lane, ARGV[3], ARGV[4])
if #ids ~= tonumber(ARGV[5]) then return 2 end
for i, id in ipairs(ids) do sent[2 * i - 1], sent[2 * i] = moment, id end
write('ZADD', O .. 'dispatched', sent)
redis.call('ZREMRANGEBYSCORE', lane, ARGV[3], ARGV[4])
if redis.call('EXISTS', O .. 'requeued') == 1 then write('ZREM', O .. 'requeued', ids) end
return 1
""")

MARK = script_with(OUTBOX, _READ, _FENCE)("""
-- further ARGV: last number of the batch, attempts until a row is dead, number of pauses, the pauses, number of rows
-- that were sent, their ids; then of each other row: id, kind, error, its attempts when it was claimed
local pauses = tonumber(ARGV[5])
local at = 6 + pauses
local last = at + tonumber(ARGV[at])
local lane, lanes = 'lane:' .. ARGV[1], {}
local gone, left, sent, dead, changed, history, freed = {}, {}, {}, {}, {}, {}, {}
local function held(ids)  -- replaces the ids of rows that are not pending, or not this caller's, by false
  local stored = any and ask('HMGET', O .. 'rows', ids)
  local tokens = any and ask('HMGET', O .. 'tokens', ids)
  local numbers, most = not any and ask('ZMSCORE', O .. lane, ids), tonumber(ARGV[3])
  for i, id in ipairs(ids) do
    if not any then
      ids[i] = numbers[i] and tonumber(numbers[i]) <= most and id
    elseif tokens[i] == ARGV[2] and stored[i] and redis.call('ZSCORE', O .. lane_of(stored[i]), id) then
      freed[#freed + 1], lanes[id] = id, lane_of(stored[i])
    else
      ids[i] = false
    end
  end
  return ids
end
local function leave(id)
  gone[#gone + 1] = id
  if any then
    left[lanes[id]] = left[lanes[id]] or {}
    table.insert(left[lanes[id]], id)
  end
end
local function attempt(id, outcome, said)
  local before = redis.call('HGET', O .. 'history', id)
  local all = before and cmsgpack.unpack(before) or {}
  table.insert(all, {now, outcome, said})
  history[#history + 1], history[#history + 2] = id, cmsgpack.pack(all)
end
local function fail(id, kind, said, tried)
  local ends = kind == 'rejected' or tried >= tonumber(ARGV[4])
  attempt(id, kind == 'rejected' and kind or ends and 'poison' or 'transient', said)
  local pause = ends and -now or tonumber(ARGV[5 + math.min(tried, pauses)])
  changed[#changed + 1], changed[#changed + 2] = id, cmsgpack.pack({tried, now + pause, ends and said or ''})
  if ends then
    dead[#dead + 1], dead[#dead + 2] = place_of(redis.call('HGET', O .. 'rows', id)), id
    leave(id)
  end
end
local moment, ids, others = text(now), arguments(at + 1, last), arguments(last + 1, nil, 4)
for _, id in ipairs(held(ids)) do
  if id then
    sent[#sent + 1], sent[#sent + 2] = moment, id
    leave(id)
  end
end
local tries, failures, seen = #others > 0 and failed(others), {}, {}
for i = 1, #others > 0 and #ids or 0 do seen[ids[i]] = true end
for i, id in ipairs(held(others)) do
  local kind, tried = ARGV[last + 4 * i - 2], (tries and tries[i] or NEVER)[1]
  -- an earlier call counted this failure, and its reply was lost
  local counted = not any and kind == 'failed' and tried ~= tonumber(ARGV[last + 4 * i])
  if id and not seen[id] and kind ~= 'outage' and not counted then
    seen[id] = true
    failures[#failures + 1] = i
  end
end
local kinds = {}
for _, name in pairs(lanes) do kinds[name] = 'zset' end
sound(kinds, O)
for _, i in ipairs(failures) do
  local place = last + 4 * i - 3
  fail(others[i], ARGV[place + 1], ARGV[place + 2], (tries and tries[i] or NEVER)[1] + 1)
end
if not any then left[lane] = gone end
write('ZADD', O .. 'dispatched', sent)
write('ZADD', O .. 'dead', dead)
write('HSET', O .. 'failed', changed)
write('HSET', O .. 'history', history)
for name, rows in pairs(left) do write('ZREM', O .. name, rows) end
if redis.call('EXISTS', O .. 'requeued') == 1 then write('ZREM', O .. 'requeued', gone) end
write('ZREM', O .. 'leased', freed)
write('ZREM', O .. 'taken', freed)
write('HDEL', O .. 'tokens', freed)
return 1
""")

RELEASE = _script("""
-- ARGV: lane, token, ids of the rows that are leased one by one
sound(KINDS, O)
if tonumber(ARGV[1]) >= 0 then
  if redis.call('HGET', O .. 'holders', ARGV[1]) == ARGV[2] then
    redis.call('HDEL', O .. 'holders', ARGV[1])
    redis.call('HDEL', O .. 'begins', ARGV[1])
    redis.call('HDEL', O .. 'ends', ARGV[1])
  end
  return
end
for i = 3, #ARGV do
  if redis.call('HGET', O .. 'tokens', ARGV[i]) == ARGV[2] then
    redis.call('HDEL', O .. 'tokens', ARGV[i])
    redis.call('ZREM', O .. 'leased', ARGV[i])
    redis.call('ZREM', O .. 'taken', ARGV[i])
  end
end
""")
