"""The Lua scripts of the outbox: reading, sweeping, mending."""

from connectors.redis.scripts_leased import BEGIN, OUTBOX

_BEGIN = BEGIN + OUTBOX

OLDEST = (
    _BEGIN
    + """
local first = redis.call('ZRANGE', O .. 'pending', 0, 0)[1]
if not first then return false end
return now - created_at(redis.call('HGET', O .. 'rows', first))
"""
)

_DELETE = """
local function delete(ids)
  for _, name in ipairs({'rows', 'failed', 'history', 'tokens'}) do write('HDEL', O .. name, ids) end
end
"""

SWEEP = (
    _BEGIN
    + _DELETE
    + """
-- ARGV: how long ago, most
sound(KINDS, O)
local ids = redis.call('ZRANGEBYSCORE', O .. 'dispatched', '-inf', '(' .. text(now - ARGV[1]), 'LIMIT', 0, ARGV[2])
delete(ids)
write('ZREM', O .. 'dispatched', ids)
return #ids
"""
)

_CHOOSE = """
local function chosen(name, wanted)  -- those of `wanted` that are there, once each
  local found, seen = {}, {}
  for i, number in ipairs(ask('ZMSCORE', O .. name, wanted)) do
    if number and not seen[wanted[i]] then
      seen[wanted[i]] = true
      found[#found + 1] = wanted[i]
    end
  end
  return found
end
local function hashes(rows)
  local found = {}
  for i, stored in ipairs(rows) do found[i] = hash_of(stored) end
  return found
end
"""

REQUEUE = (
    _BEGIN
    + _CHOOSE
    + """
-- ARGV: all or some, ids
local wanted = {}
for i = 2, #ARGV do wanted[#wanted + 1] = ARGV[i] end
local ids = ARGV[1] == 'all' and redis.call('ZRANGE', O .. 'dead', 0, -1) or chosen('dead', wanted)
local stored = ask('HMGET', O .. 'rows', ids)
outbox_sound(hashes(stored))
if #ids == 0 then return 0 end
write('HDEL', O .. 'failed', ids)
write('ZREM', O .. 'dead', ids)
enqueue(ids, stored)
return #ids
"""
)

DROP = (
    _BEGIN
    + _CHOOSE
    + _DELETE
    + """
local wanted = {}
for i = 1, #ARGV do wanted[i] = ARGV[i] end
local pending, dead = chosen('pending', wanted), chosen('dead', wanted)
local of = hashes(ask('HMGET', O .. 'rows', pending))
outbox_sound(of)
for i, id in ipairs(pending) do redis.call('ZREM', O .. lane_key(of[i]), id) end
write('ZREM', O .. 'pending', pending)
write('ZREM', O .. 'dead', dead)
write('ZREM', O .. 'leased', wanted)
delete(pending)
delete(dead)
return #pending + #dead
"""
)

FIND = (
    _BEGIN
    + """
-- ARGV: state, which one to begin with, how many
local found = redis.call('ZRANGE', O .. ARGV[1], ARGV[2], ARGV[2] + ARGV[3] - 1, 'WITHSCORES')
local ids, scores = {}, {}
for i = 1, #found, 2 do
  ids[#ids + 1], scores[#scores + 1] = found[i], found[i + 1]
end
return {scores, ask('HMGET', O .. 'rows', ids), ask('HMGET', O .. 'failed', ids)}
"""
)

ATTEMPTS = (
    _BEGIN
    + """
return {redis.call('HGET', O .. 'history', ARGV[1]), redis.call('ZSCORE', O .. 'dispatched', ARGV[1])}
"""
)
