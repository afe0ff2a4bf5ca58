"""The Lua functions that the scripts of the leased contracts share. These scripts write all outbox rows and timeouts.

KEYS[1] is the prefix of all keys, KEYS[2] the prefix of the app's timeouts and outbox. All keys have one hash tag, so
they lie in one slot. Lua's numbers hold microseconds exactly up to the year 2255.
"""

from collections.abc import Callable

from sluicegate.streams.contracts.lanes import LANES

PREFIX = "sluicegate:{sluicegate-leased}:"


def prefix_of(app: str) -> str:
    """The prefix of the app's timeouts and outbox."""
    return f"{PREFIX}app/{app}/" if app else PREFIX


TOOLS = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function arguments(from, to, step)  -- a list of ARGV; `to` nil: up to the end
  local found = {}
  for i = from, to or #ARGV, step or 1 do found[#found + 1] = ARGV[i] end
  return found
end
local function write(command, key, list)  -- in pages, since `unpack` takes a limited number of values
  for i = 1, #list, 4000 do redis.call(command, key, unpack(list, i, math.min(i + 3999, #list))) end
end
local function ask(command, key, list)
  if #list == 0 then return list end
  if #list <= 4000 then return redis.call(command, key, unpack(list)) end
  local found = {}
  for i = 1, #list, 4000 do
    local page = redis.call(command, key, unpack(list, i, math.min(i + 3999, #list)))
    for _, answer in ipairs(page) do found[#found + 1] = answer end
  end
  return found
end
local function sound(kinds, beginning)  -- raises an error for a key of another type, before anything is written
  for name, kind in pairs(kinds) do
    local found = redis.call('TYPE', beginning .. name).ok
    if found ~= 'none' and found ~= kind then
      error('DAMAGED ' .. beginning .. name .. ' is a ' .. found .. ' and no ' .. kind)
    end
  end
end
"""

BEGIN = "local P, S = KEYS[1], KEYS[2]" + TOOLS


def script_with(*parts: str) -> Callable[[str], str]:
    """Returns a function that puts BEGIN and these parts in front of a script."""
    beginning = BEGIN + "".join(parts)
    return lambda script: beginning + script


OUTBOX = """
-- rows: id -> hash of the message's key, created_at, place in the order of all rows, message (msgpack)
-- last: the last place; numbers: lane -> its last number; lane:N: pending ids of the lane, by number
-- dispatched: ids by time; dead: ids by place; requeued: pending ids that were dead, by place
-- failed: id -> attempts, time of the next attempt, reason of death; history: id -> list of attempts
-- holders, begins, ends: lane -> token, begin and end of the lane's lease
-- tokens, taken, leased: the same of rows that are leased one by one
local O = S .. 'outbox:'
local KINDS = {rows = 'hash', requeued = 'zset', dispatched = 'zset', dead = 'zset', failed = 'hash', history = 'hash',
  holders = 'hash', begins = 'hash', ends = 'hash', taken = 'zset', leased = 'zset', tokens = 'hash', numbers = 'hash',
  last = 'string', lanes = 'string'}
local total = tonumber(redis.call('GET', O .. 'lanes') or 'LANES')
local function stored_as(hash, place, message)
  return struct.pack('>BBI4Bi8Bi8', 148, 206, hash, 211, now, 211, place) .. message
end
local function hash_of(stored) return (struct.unpack('>I4', stored, 3)) end
local function created_at(stored) return (struct.unpack('>i8', stored, 8)) end
local function place_of(stored) return (struct.unpack('>i8', stored, 17)) end
local function lane_key(hash) return 'lane:' .. text(hash % total) end
local function lane_of(stored) return lane_key(hash_of(stored)) end
local function pending()
  local count = 0
  for lane = 0, total - 1 do count = count + redis.call('ZCARD', O .. lane_key(lane)) end
  return count
end
local function outbox_sound(hashes)
  sound(KINDS, O)
  local lanes = {}
  for _, hash in ipairs(hashes) do lanes[lane_key(hash)] = 'zset' end
  sound(lanes, O)
  if not tonumber(redis.call('GET', O .. 'last') or '0') then error('DAMAGED ' .. O .. 'last is not a number') end
end
local function enqueue(ids, stored)  -- at the end of their lanes
  local lanes = {}
  for i, id in ipairs(ids) do
    local lane = hash_of(stored[i]) % total
    lanes[lane] = lanes[lane] or {}
    table.insert(lanes[lane], id)
  end
  for lane, those in pairs(lanes) do
    local number, rows = redis.call('HINCRBY', O .. 'numbers', lane, #those) - #those, {}
    for i, id in ipairs(those) do rows[#rows + 1], rows[#rows + 2] = number + i, id end
    write('ZADD', O .. lane_key(lane), rows)
  end
  redis.call('PUBLISH', O .. 'added', #ids)
end
-- ARGV from `at`: id, hash of the key, message of each row. Returns where in ARGV the new rows begin
local function fresh(at, wanted)
  local ids, places, seen = arguments(at, nil, 3), {}, {}
  for i, known in ipairs(ask('HMGET', O .. 'rows', ids)) do
    if not known and not seen[ids[i]] and (not wanted or wanted[i]) then
      seen[ids[i]] = true
      places[#places + 1] = at + 3 * (i - 1)
    end
  end
  return places
end
local function hashes_of(places)
  local hashes = {}
  for i, at in ipairs(places) do hashes[i] = tonumber(ARGV[at + 1]) end
  return hashes
end
local function add(places)
  if #places == 0 then return end
  local ids, stored, rows, last = {}, {}, {}, redis.call('INCRBY', O .. 'last', #places) - #places
  for i, at in ipairs(places) do
    ids[i], stored[i] = ARGV[at], stored_as(tonumber(ARGV[at + 1]), last + i, ARGV[at + 2])
    rows[#rows + 1], rows[#rows + 2] = ids[i], stored[i]
  end
  write('HSET', O .. 'rows', rows)
  enqueue(ids, stored)
end
""".replace("LANES", str(LANES))

TIMEOUTS = """
-- payloads: id -> due_at (8 bytes) and the rest (msgpack); free: ids by due_at; locked: ids by the end of the lock
-- owners: id -> owner of the lock; scheduled: ids with `after`, by the time from which it counts
local T = S .. 'timeouts:'
local TYPES = {payloads = 'hash', free = 'zset', locked = 'zset', owners = 'hash', scheduled = 'zset'}
local function timeouts_sound() sound(TYPES, T) end
local function due_of(stored) return (struct.unpack('>i8', stored)) end
local function unlock(ids)
  write('ZREM', T .. 'locked', ids)
  write('HDEL', T .. 'owners', ids)
end
local function forget(ids)
  write('HDEL', T .. 'payloads', ids)
  write('ZREM', T .. 'free', ids)
  write('ZREM', T .. 'scheduled', ids)
  unlock(ids)
end
local function put(from, to, fits)  -- ARGV from `from` to `to`: id, payload, time from which `after` counts or ''
  local payloads, dues, scheduled = {}, {}, {}
  for i = from, to, 3 do
    if not fits or fits(ARGV[i]) then
      payloads[#payloads + 1], payloads[#payloads + 2] = ARGV[i], ARGV[i + 1]
      dues[#dues + 1], dues[#dues + 2] = due_of(ARGV[i + 1]), ARGV[i]
      if ARGV[i + 2] ~= '' then scheduled[#scheduled + 1], scheduled[#scheduled + 2] = ARGV[i + 2], ARGV[i] end
    end
  end
  write('HSET', T .. 'payloads', payloads)
  write('ZADD', T .. 'free', dues)
  write('ZADD', T .. 'scheduled', scheduled)
end
"""

# For a commit that schedules timeouts: SCHEDULING stands before its first write, SCHEDULE after its last. KEYS[8] is
# the prefix of the app, KEYS[9] the prefix without an app, which earlier versions of this program used.
SCHEDULING = (
    "local S = KEYS[8] or ''"
    + TOOLS
    + TIMEOUTS
    + """
local function under(prefix, work)  -- with the timeouts of this prefix
  local own = T
  T = prefix .. 'timeouts:'
  local result = work()
  T = own
  return result
end
if KEYS[8] then
  timeouts_sound()
  under(KEYS[9], timeouts_sound)
end
"""
)
SCHEDULE = """
if KEYS[8] then
  local last = at + tonumber(ARGV[at])
  local cancelled, seen = arguments(at + 1, last), {}
  forget(cancelled)
  under(KEYS[9], function() forget(cancelled) end)
  put(last + 2, last + 1 + tonumber(ARGV[last + 1]), function(id)
    local function there() return redis.call('HEXISTS', T .. 'payloads', id) == 1 end
    local known = seen[id] or there() or under(KEYS[9], there)
    seen[id] = true
    return not known
  end)
end
"""
