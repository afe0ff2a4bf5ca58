"""The Lua scripts of partitions. Each checks everything before its first write: a script that fails changes nothing.

KEYS of a partition are claim (hash), log (list), outbox (sorted set), dead (sorted set), and of cold groups the states
(hash), keys (sorted set) and deadlines (sorted set), in this order. A commit that schedules timeouts has two more: the
prefixes of the timeouts of the app, and of no app.
"""

from sluicegate.connectors.redis.scripts_leased import SCHEDULE, SCHEDULING

CLAIM = """
-- ARGV: token, member, incarnation, then the fields of a new row
local known = redis.call('EXISTS', KEYS[1])
local before = {'', ''}
if known == 1 then
  before = redis.call('HMGET', KEYS[1], 'token', 'member')
else
  redis.call('HSET', KEYS[1], 'incarnation', ARGV[3], unpack(ARGV, 4))
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'member', ARGV[2])
return {redis.call('HGETALL', KEYS[1]), redis.call('TIME'), before}
"""

CHECKS = """
-- ARGV: token, version, number of the changelog entries
local held = redis.call('HMGET', KEYS[1], 'token', 'version')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced'} end
local kinds = {[2] = 'list', [3] = 'zset', [4] = 'zset', [5] = 'hash', [6] = 'zset', [7] = 'zset'}
for key, kind in pairs(kinds) do
  local found = redis.call('TYPE', KEYS[key]).ok
  if found ~= 'none' and found ~= kind then return {'damaged'} end
end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return {'damaged'} end
"""

CHECK = CHECKS + "return {'good'}"

COMMIT = (
    CHECKS
    + SCHEDULING
    + """
-- further ARGV: number of the oldest entries to drop, then eight lists, each after its length:
--   fields of the claim (name, value), dead rows (number, head), runs of delivered rows (first, last), runs of revived
--   rows (first, last), entries, outbox rows (number, row), keys of cold groups to drop, cold groups (key, deadline or
--   nothing, state);
-- with more keys two more lists: timeouts to cancel (id), timeouts to insert (`put`)
local at = 5
local function each(write)
  local last = at + tonumber(ARGV[at])
  for i = at + 1, last, 2 do write(ARGV[i], ARGV[i + 1]) end
  at = last + 1
end
local function all(command, key)
  local last = at + tonumber(ARGV[at])
  for i = at + 1, last, 1000 do redis.call(command, key, unpack(ARGV, i, math.min(i + 999, last))) end
  at = last + 1
end
all('HSET', KEYS[1])
each(function(number, head)
  local row = redis.call('ZRANGEBYSCORE', KEYS[3], number, number)[1]
  if row then
    redis.call('ZADD', KEYS[4], number, head .. row)
    redis.call('ZREMRANGEBYSCORE', KEYS[3], number, number)
  end
end)
for _, key in ipairs({3, 4}) do
  each(function(first, last) redis.call('ZREMRANGEBYSCORE', KEYS[key], first, last) end)
end
all('RPUSH', KEYS[2])
if ARGV[4] ~= '0' then redis.call('LTRIM', KEYS[2], ARGV[4], -1) end
all('ZADD', KEYS[3])
local last = at + tonumber(ARGV[at])
for i = at + 1, last, 1000 do
  local to = math.min(i + 999, last)
  redis.call('HDEL', KEYS[5], unpack(ARGV, i, to))
  redis.call('ZREM', KEYS[6], unpack(ARGV, i, to))
  redis.call('ZREM', KEYS[7], unpack(ARGV, i, to))
end
at = last + 1
last = at + tonumber(ARGV[at])
for i = at + 1, last, 3 do
  redis.call('HSET', KEYS[5], ARGV[i], ARGV[i + 2])
  redis.call('ZADD', KEYS[6], 0, ARGV[i])
  if ARGV[i + 1] == '' then
    redis.call('ZREM', KEYS[7], ARGV[i])
  else
    redis.call('ZADD', KEYS[7], ARGV[i + 1], ARGV[i])
  end
end
at = last + 1
"""
    + SCHEDULE
    + """
return {'done', redis.call('TIME')}
"""
)

ENTRIES = """
-- ARGV: first and last number
local kept = tonumber(redis.call('HGET', KEYS[1], 'first') or '1')
local from, to = ARGV[1] - kept, ARGV[2] - kept
if to < 0 then return {} end
return redis.call('LRANGE', KEYS[2], math.max(from, 0), to)
"""

COLD_PAGE = """
-- ARGV: command, key of the sorted set, from, to, limit. Returns the keys of cold groups, and their states
local keys = redis.call(ARGV[1], KEYS[tonumber(ARGV[2])], ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5])
local states = {}
for at, key in ipairs(keys) do states[at] = redis.call('HGET', KEYS[5], key) end
return {keys, states}
"""

CLEAR_CRASH_MARK = """
-- ARGV: token, processes
local held = redis.call('HMGET', KEYS[1], 'token', 'trying')
if not held[1] then return 0 end
local gone, left = {}, {}
for i = 2, #ARGV do gone[ARGV[i]] = true end
local trying = (held[2] and held[2] ~= '') and cmsgpack.unpack(held[2]) or {0, {}}
for _, process in ipairs(trying[2]) do
  if not gone[process] then left[#left + 1] = process end
end
if #left == #trying[2] and held[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'token', '', 'trying', #left > 0 and cmsgpack.pack({trying[1], left}) or '')
return 1
"""

FORGET = """
-- ARGV: token, version
local held = redis.call('HMGET', KEYS[1], 'token', 'version')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced'} end
redis.call('DEL', unpack(KEYS))
return {'good'}
"""

READ = """
return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1), redis.call('ZCARD', KEYS[3]),
  redis.call('ZCARD', KEYS[4]), redis.call('TIME')}
"""

MIGRATE = """
-- KEYS: schema, incarnation; ARGV: number of steps, name for new data. Returns the number of steps done before
local done = tonumber(redis.call('GET', KEYS[1]) or '0')
redis.call('GET', KEYS[2])
if done < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
redis.call('SET', KEYS[2], ARGV[2], 'NX')
return done
"""
