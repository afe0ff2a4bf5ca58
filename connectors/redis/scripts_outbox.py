"""The Lua scripts of the outbox: adding, claiming, marking."""

from connectors.redis.scripts_leased import BEGIN, OUTBOX

_BEGIN = BEGIN + OUTBOX

ADD = (
    _BEGIN
    + """
-- ARGV: id, hash of the key, message of each
local places = fresh(1)
outbox_sound(hashes_of(places))
add(places)
return #places
"""
)

SET_LANES = (
    _BEGIN
    + """
local pending = redis.call('ZCARD', O .. 'pending')
if pending == 0 then redis.call('SET', O .. 'lanes', ARGV[1]) end
return pending
"""
)

_READ = """
local function row(number, attempts, stored)
  return '\\149' .. cmsgpack.pack(tonumber(number)) .. cmsgpack.pack(attempts) .. string.sub(stored, 5)
end
local function array(rows) return '\\221' .. struct.pack('>I4', #rows) .. table.concat(rows) end
local function failed(ids)  -- attempts and the next one, of each
  local found = {}
  local some = redis.call('EXISTS', O .. 'failed') == 1 and ask('HMGET', O .. 'failed', ids) or {}
  for i = 1, #ids do
    local held = some[i] and cmsgpack.unpack(some[i])
    found[i] = held or {0, 0, ''}
  end
  return found
end
local function lasting(ends) return ends and tonumber(ends) > now end
"""

CLAIM = (
    _BEGIN
    + _READ
    + """
-- ARGV: lane, token, limit, after, lease
if tonumber(ARGV[1]) >= total then return total end
local holder = redis.call('HGET', O .. 'holders', ARGV[1])
local ends = redis.call('HGET', O .. 'ends', ARGV[1])
if holder and holder ~= ARGV[2] and lasting(ends) then return false end
local function pending(...)  -- numbers, ids, attempts, and until when each waits: in back-off, or claimed by itself
  local found, ids, numbers = redis.call('ZRANGEBYSCORE', O .. 'lane:' .. ARGV[1], ...), {}, {}
  for i = 1, #found, 2 do ids[#ids + 1], numbers[#numbers + 1] = found[i], found[i + 1] end
  local tries, waits = failed(ids), {}
  local taken = redis.call('EXISTS', O .. 'leased') == 1 and ask('ZMSCORE', O .. 'leased', ids) or {}
  for i = 1, #ids do waits[i] = math.max(tries[i][2], tonumber(taken[i] or 0)) end
  return numbers, ids, tries, waits
end
local rows, blocked = {}, 0
if ARGV[4] ~= '0' and redis.call('EXISTS', O .. 'failed', O .. 'leased') > 0 then
  local _, _, _, waits = pending('-inf', ARGV[4], 'WITHSCORES')
  for _, each in ipairs(waits) do blocked = math.max(blocked, each) end
end
if blocked <= now then
  blocked = 0
  local numbers, ids, tries, waits = pending('(' .. ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
  local stored = ask('HMGET', O .. 'rows', ids)
  for i = 1, #ids do
    if waits[i] > now then
      blocked = waits[i]
      break
    end
    rows[i] = row(numbers[i], tries[i][1], stored[i])
  end
end
redis.call('HSET', O .. 'holders', ARGV[1], ARGV[2])
redis.call('HSET', O .. 'ends', ARGV[1], text(now + ARGV[5]))
return {text(now + ARGV[5]), #rows == 0 and blocked > 0 and text(blocked) or '', array(rows)}
"""
)

CLAIM_ANY = (
    _BEGIN
    + _READ
    + """
-- ARGV: token, limit, lease
sound(KINDS, O)
local ends, held = redis.call('HGETALL', O .. 'ends'), {}
for i = 1, #ends, 2 do held['lane:' .. ends[i]] = lasting(ends[i + 1]) end
local rows, leases, tokens, after = {}, {}, {}, '-inf'
local limit, till = tonumber(ARGV[2]), text(now + ARGV[3])
local function take(found)
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local stored, tries, taken = ask('HMGET', O .. 'rows', ids), failed(ids), ask('ZMSCORE', O .. 'leased', ids)
  for i, id in ipairs(ids) do
    if #rows == limit then return end
    if tries[i][2] <= now and not lasting(taken[i]) and not held[lane_of(stored[i])] then
      rows[#rows + 1] = row(found[2 * i], tries[i][1], stored[i])
      leases[#leases + 1], leases[#leases + 2] = till, id
      tokens[#tokens + 1], tokens[#tokens + 2] = id, ARGV[1]
    end
  end
end
repeat
  local found = redis.call('ZRANGEBYSCORE', O .. 'pending', after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
  take(found)
  after = '(' .. (found[#found] or '')
until #found < 2000 or #rows == limit
write('ZADD', O .. 'leased', leases)
write('HSET', O .. 'tokens', tokens)
return {till, '', array(rows)}
"""
)

FENCE = "if not any and redis.call('HGET', O .. 'holders', ARGV[1]) ~= ARGV[2] then return 0 end"

MARK = (
    _BEGIN
    + _READ
    + """
-- ARGV: lane, token, the last number in hand, attempts until dead, how many pauses, pauses, how many were sent, their ids,
-- then (id, kind, error) of the others
local any = tonumber(ARGV[1]) < 0
FENCE
sound(KINDS, O)
local pauses = tonumber(ARGV[5])
local at = 6 + pauses
local last = at + tonumber(ARGV[at])
local ids, kinds, errors, lanes = {}, {}, {}, {}
for i = at + 1, last do ids[#ids + 1] = ARGV[i] end
for i = last + 1, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
  kinds[#ids], errors[#ids] = ARGV[i + 1], ARGV[i + 2]
end
local lane = 'lane:' .. ARGV[1]
local numbers = ask('ZMSCORE', any and O .. 'pending' or O .. lane, ids)
local ours = any and ask('HMGET', O .. 'tokens', ids)
local stored = any and ask('HMGET', O .. 'rows', ids)
if any then
  for i = 1, #ids do
    if stored[i] then lanes[lane_of(stored[i])] = 'zset' end
  end
  sound(lanes, O)
end
local tries = #ids > last - at and failed(ids) or {}
local gone, sent, dead, changed, history, freed, left = {}, {}, {}, {}, {}, {}, {}
local function attempt(id, outcome, said)
  local before = redis.call('HGET', O .. 'history', id)
  local all = before and cmsgpack.unpack(before) or {}
  table.insert(all, {now, outcome, said})
  history[#history + 1], history[#history + 2] = id, cmsgpack.pack(all)
end
local function after(i, id)
  if not kinds[i] then
    sent[#sent + 1], sent[#sent + 2] = text(now), id
    return true
  end
  if kinds[i] == 'outage' then return false end
  local tried = tries[i][1] + 1
  local ends = kinds[i] == 'rejected' or tried >= tonumber(ARGV[4])
  attempt(id, kinds[i] == 'rejected' and 'rejected' or ends and 'poison' or 'transient', errors[i])
  local pause = ends and -now or tonumber(ARGV[5 + math.min(tried, pauses)])
  changed[#changed + 1], changed[#changed + 2] = id, cmsgpack.pack({tried, now + pause, ends and errors[i] or ''})
  if ends then dead[#dead + 1], dead[#dead + 2] = place_of(redis.call('HGET', O .. 'rows', id)), id end
  return ends
end
local done = {}
for i, id in ipairs(ids) do
  local held = numbers[i] and (any and ours[i] == ARGV[2] or not any and tonumber(numbers[i]) <= tonumber(ARGV[3]))
  if held and not done[id] then
    done[id] = true
    if after(i, id) then
      gone[#gone + 1] = id
      local name = any and lane_of(stored[i]) or lane
      left[name] = left[name] or {}
      table.insert(left[name], id)
    end
    if any then freed[#freed + 1] = id end
  end
end
write('ZADD', O .. 'dispatched', sent)
write('ZADD', O .. 'dead', dead)
write('HSET', O .. 'failed', changed)
write('HSET', O .. 'history', history)
write('ZREM', O .. 'pending', gone)
for name, rows in pairs(left) do write('ZREM', O .. name, rows) end
write('ZREM', O .. 'leased', freed)
write('HDEL', O .. 'tokens', freed)
return 1
""".replace("FENCE", FENCE)
)

RELEASE = (
    _BEGIN
    + """
-- ARGV: lane, token, ids of rows without order
sound(KINDS, O)
if tonumber(ARGV[1]) >= 0 then
  if redis.call('HGET', O .. 'holders', ARGV[1]) == ARGV[2] then
    redis.call('HDEL', O .. 'holders', ARGV[1])
    redis.call('HDEL', O .. 'ends', ARGV[1])
  end
  return
end
for i = 3, #ARGV do
  if redis.call('HGET', O .. 'tokens', ARGV[i]) == ARGV[2] then
    redis.call('HDEL', O .. 'tokens', ARGV[i])
    redis.call('ZREM', O .. 'leased', ARGV[i])
  end
end
"""
)
