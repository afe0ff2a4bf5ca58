"""The Lua scripts with which operators read, sweep, requeue and drop outbox rows."""

from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with

_script = script_with(OUTBOX)

PENDING = _script("return pending()")

OLDEST = _script("""
local ids, oldest = redis.call('ZRANGE', O .. 'requeued', 0, 0), now
for lane = 0, total - 1 do ids[#ids + 1] = redis.call('ZRANGE', O .. lane_key(lane), 0, 0)[1] end
for _, stored in ipairs(ask('HMGET', O .. 'rows', ids)) do oldest = math.min(oldest, created_at(stored)) end
return #ids > 0 and now - oldest
""")

_DELETE = """
local function delete(ids)
  for _, name in ipairs({'rows', 'failed', 'history', 'tokens'}) do write('HDEL', O .. name, ids) end
end
"""

SWEEP = script_with(OUTBOX, _DELETE)("""
-- ARGV: minimum age, limit
sound(KINDS, O)
local ids = redis.call('ZRANGEBYSCORE', O .. 'dispatched', '-inf', '(' .. text(now - ARGV[1]), 'LIMIT', 0, ARGV[2])
delete(ids)
write('ZREM', O .. 'dispatched', ids)
return #ids
""")

_CHOOSE = """
local function hashes(rows)
  local found = {}
  for i, stored in ipairs(rows) do found[i] = hash_of(stored) end
  return found
end
local function chosen(wanted, fits)  -- the ids of rows that exist and fit, each once, and the stored rows
  local ids, rows, seen = {}, {}, {}
  for i, stored in ipairs(ask('HMGET', O .. 'rows', wanted)) do
    if stored and not seen[wanted[i]] and fits(wanted[i], stored) then
      seen[wanted[i]] = true
      ids[#ids + 1], rows[#rows + 1] = wanted[i], stored
    end
  end
  return ids, rows
end
local function is_dead(id) return redis.call('ZSCORE', O .. 'dead', id) end
local function is_pending(id, stored) return redis.call('ZSCORE', O .. lane_of(stored), id) end
"""

REQUEUE = script_with(OUTBOX, _CHOOSE)("""
-- ARGV: 'all', or 'some' and the ids
local wanted = ARGV[1] == 'all' and redis.call('ZRANGE', O .. 'dead', 0, -1) or arguments(2)
local ids, rows = chosen(wanted, is_dead)
outbox_sound(hashes(rows))
if #ids == 0 then return 0 end
local places = {}
for i, stored in ipairs(rows) do places[2 * i - 1], places[2 * i] = place_of(stored), ids[i] end
write('HDEL', O .. 'failed', ids)
write('ZREM', O .. 'dead', ids)
write('ZADD', O .. 'requeued', places)
enqueue(ids, rows)
return #ids
""")

DROP = script_with(OUTBOX, _CHOOSE, _DELETE)("""
local waiting, rows = chosen(ARGV, is_pending)
local dead = chosen(ARGV, is_dead)
outbox_sound(hashes(rows))
for i, id in ipairs(waiting) do redis.call('ZREM', O .. lane_of(rows[i]), id) end
write('ZREM', O .. 'requeued', waiting)
write('ZREM', O .. 'leased', waiting)
write('ZREM', O .. 'taken', waiting)
write('ZREM', O .. 'dead', dead)
delete(waiting)
delete(dead)
return #waiting + #dead
""")

FIND = _script("""
-- ARGV: dispatched, dead or lane:N, position of the first row, limit
local found = redis.call('ZRANGE', O .. ARGV[1], ARGV[2], ARGV[2] + ARGV[3] - 1, 'WITHSCORES')
local ids, scores = {}, {}
for i = 1, #found, 2 do
  ids[#ids + 1], scores[#scores + 1] = found[i], found[i + 1]
end
return {scores, ask('HMGET', O .. 'rows', ids), ask('HMGET', O .. 'failed', ids)}
""")

GET = _script("""
-- ARGV: id
local dispatched, dead = redis.call('ZSCORE', O .. 'dispatched', ARGV[1]), redis.call('ZSCORE', O .. 'dead', ARGV[1])
local state = dispatched and 'dispatched' or dead and 'dead' or 'pending'
local found = {state, dispatched or '0'}
for i, name in ipairs({'rows', 'failed', 'history'}) do found[2 + i] = redis.call('HGET', O .. name, ARGV[1]) end
return found
""")
