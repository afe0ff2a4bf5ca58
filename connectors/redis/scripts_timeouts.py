"""The Lua scripts of the timeout store."""

from sluicegate.connectors.redis.scripts_leased import OUTBOX, TIMEOUTS, script_with

_TIMEOUTS = TIMEOUTS + "timeouts_sound()\n"
_script = script_with(_TIMEOUTS)

INSERT = _script("""
-- ARGV: id, payload, time or '' of each timeout (`put`). Returns 0, and inserts none, when one of the ids is not new
local ids, seen = arguments(1, nil, 3), {}
for i, known in ipairs(ask('HMGET', T .. 'payloads', ids)) do
  if known or seen[ids[i]] then return 0 end
  seen[ids[i]] = true
end
put(1, #ARGV)
return 1
""")

_FREE = """
local function free(ids)  -- removes their locks
  local dues = {}
  for i, stored in ipairs(ask('HMGET', T .. 'payloads', ids)) do
    if not stored then error('DAMAGED ' .. T .. 'payloads lacks one') end
    dues[#dues + 1], dues[#dues + 2] = due_of(stored), ids[i]
  end
  unlock(ids)
  write('ZADD', T .. 'free', dues)
  return #ids
end
local function expired() return redis.call('ZRANGEBYSCORE', T .. 'locked', '-inf', text(now)) end
local function holds(ids, owner)  -- for each id, whether this owner has a lock on it that has not expired
  local ends, owners, found = ask('ZMSCORE', T .. 'locked', ids), ask('HMGET', T .. 'owners', ids), {}
  for i = 1, #ids do found[i] = ends[i] and tonumber(ends[i]) > now and owners[i] == owner end
  return found
end
"""

_SOONEST = """
local function soonest()  -- due_at (8 bytes) of the first timeout that is not locked
  local ids, least = expired(), false
  ids[#ids + 1] = redis.call('ZRANGE', T .. 'free', 0, 0)[1]
  for _, stored in ipairs(ask('HMGET', T .. 'payloads', ids)) do
    if stored and (not least or due_of(stored) < due_of(least)) then least = stored end
  end
  return least and string.sub(least, 1, 8)
end
"""

_SET_LOCKS_BACK = """
do  -- a lock that ends later than one of now was made while the clock was ahead
  local latest, locks = text(now + ARGV[3]), {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', T .. 'locked', '(' .. latest, '+inf')) do
    locks[#locks + 1], locks[#locks + 2] = latest, id
  end
  write('ZADD', T .. 'locked', locks)
end
"""

_SET_BACK = """
do  -- what was scheduled later than now was written while the clock was ahead: `after` counts from now
  local payloads, dues, scheduled = {}, {}, {}
  local ids = redis.call('ZRANGEBYSCORE', T .. 'scheduled', '(' .. text(now), '+inf', 'WITHSCORES')
  for i = 1, #ids, 2 do
    local stored = redis.call('ZSCORE', T .. 'free', ids[i]) and redis.call('HGET', T .. 'payloads', ids[i])
    if stored then
      local due = due_of(stored) - tonumber(ids[i + 1]) + now
      payloads[#payloads + 1], payloads[#payloads + 2] = ids[i], struct.pack('>i8', due) .. string.sub(stored, 9)
      dues[#dues + 1], dues[#dues + 2] = text(due), ids[i]
      scheduled[#scheduled + 1], scheduled[#scheduled + 2] = text(now), ids[i]
    end
  end
  write('HSET', T .. 'payloads', payloads)
  write('ZADD', T .. 'free', dues)
  write('ZADD', T .. 'scheduled', scheduled)
end
"""

BATCH = script_with(_TIMEOUTS, _FREE, "free(expired())\n", _SET_LOCKS_BACK, _SET_BACK, _SOONEST)("""
-- ARGV: owner, limit, lease
local ids = redis.call('ZRANGEBYSCORE', T .. 'free', '-inf', text(now), 'LIMIT', 0, ARGV[2])
local payloads = ask('HMGET', T .. 'payloads', ids)
local ends, locks, owners = text(now + ARGV[3]), {}, {}
for i, id in ipairs(ids) do
  locks[#locks + 1], locks[#locks + 2] = ends, id
  owners[#owners + 1], owners[#owners + 2] = id, ARGV[1]
end
write('ZREM', T .. 'free', ids)
write('ZADD', T .. 'locked', locks)
write('HSET', T .. 'owners', owners)
return {ids, payloads, ask('ZMSCORE', T .. 'scheduled', ids), ends, soonest()}
""")

_CHECK_OWNER = """
-- ARGV: id, and the owner if its lock is required
if ARGV[2] and not holds({ARGV[1]}, ARGV[2])[1] then return 0 end
"""

REMOVE = script_with(_TIMEOUTS, _FREE, _CHECK_OWNER)("""
forget({ARGV[1]})
return 1
""")

RELEASE = script_with(_TIMEOUTS, _FREE, _CHECK_OWNER)("""
if redis.call('ZSCORE', T .. 'locked', ARGV[1]) then free({ARGV[1]}) end
return 1
""")

REAP = script_with(_TIMEOUTS, _FREE)("return free(expired())")

EMIT = script_with(_TIMEOUTS, OUTBOX, _FREE)("""
-- ARGV: owner, number of timeouts, number of values of those that follow, ids, those that follow (`put`), messages
local following = 4 + ARGV[2]
local first = following + ARGV[3]
local named, held, ids, places = arguments(4, following - 1), {}, {}, {}
for i, ours in ipairs(holds(named, ARGV[1])) do
  if ours and not held[named[i]] then
    held[named[i]] = true
    ids[#ids + 1] = named[i]
  end
end
for _, at in ipairs(fresh(first)) do
  if held[ARGV[4 + (at - first) / 3]] then places[#places + 1] = at end
end
outbox_sound(hashes_of(places))
add(places)
forget(ids)
put(following, first - 1, function(id) return held[id] end)
return #ids
""")

NEXT = script_with(_TIMEOUTS, _FREE, _SOONEST)("return soonest()")

CANCEL = _script("""
local there = redis.call('HEXISTS', T .. 'payloads', ARGV[1])
forget({ARGV[1]})
return there
""")

MOVE = _script("""
-- ARGV: id, due_at
local stored = redis.call('HGET', T .. 'payloads', ARGV[1])
if not stored then return 0 end
local moved = ARGV[2] .. string.sub(stored, 9)
unlock({ARGV[1]})
redis.call('ZREM', T .. 'scheduled', ARGV[1])
redis.call('HSET', T .. 'payloads', ARGV[1], moved)
redis.call('ZADD', T .. 'free', due_of(moved), ARGV[1])
return 1
""")
