"""The Lua scripts of the aggregator buffer: snapshots, leases, removals. ARGV[1] is always the name."""

from sluicegate.connectors.redis.scripts_buffer import BUFFER
from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with

_script = script_with(BUFFER)

SNAPSHOT = _script("""
-- further ARGV: token, lease, limit (or '')
if redis.call('EXISTS', key('packed')) == 1 then return 'packed' end
set_leases_back()
local most, rows, moved, ends, after = tonumber(ARGV[4]) or math.huge, {}, {}, {}, '-inf'
local function live(token)
  if ends[token] == nil then ends[token] = tonumber(redis.call('ZSCORE', key('tokens'), token) or 0) > now end
  return ends[token]
end
local function take(page)
  local leases = ask('HMGET', key('leases'), page)
  for i, row in ipairs(page) do
    if #rows == most then return end
    local lease = leases[i]
    if not lease or not batch_of(lease) and not live(lease) then
      rows[#rows + 1] = row
      if lease then
        moved[lease] = moved[lease] or {}
        table.insert(moved[lease], row)
      end
    end
  end
end
repeat
  local page = redis.call('ZRANGEBYSCORE', key('order'), after, '+inf', 'LIMIT', 0, 1000)
  take(page)
  after = '(' .. (page[#page] or '')
until #page < 1000 or #rows == most
local elsewhere, soonest = 0, nil
local others = redis.call('ZRANGEBYSCORE', key('tokens'), '(' .. text(now), '+inf', 'WITHSCORES')
for i = 1, #others, 2 do
  elsewhere = elsewhere + redis.call('SCARD', held_key(others[i]))
  soonest = math.min(soonest or math.huge, others[i + 1])
end
local batches = redis.call('ZRANGE', key('sealed'), 0, -1, 'WITHSCORES')
for i = 1, #batches, 2 do
  local batch = held_batch(batches[i])
  elsewhere = elsewhere + (batch[6] or #batch[5])
  if tonumber(batches[i + 1]) > now then soonest = math.min(soonest or math.huge, batches[i + 1]) end
end
local stored, leases, till = ask('HMGET', key('rows'), rows), {}, text(now + ARGV[3])
for token, those in pairs(moved) do leave_snapshot(token, those) end
for _, row in ipairs(rows) do leases[#leases + 1], leases[#leases + 2] = row, ARGV[2] end
write('HSET', key('leases'), leases)
write('SADD', held_key(ARGV[2]), rows)
if #rows > 0 then lend('tokens', ARGV[2], ARGV[3]) end
return {rows, stored, till, elsewhere, soonest and text(soonest) or false}
""")

_RELEASE = """
local function release(token)  -- returns how many rows the snapshot had
  local all, rows = redis.call('SMEMBERS', held_key(token)), {}
  for i, lease in ipairs(ask('HMGET', key('leases'), all)) do
    if lease == token then rows[#rows + 1] = all[i] end
  end
  write('HDEL', key('leases'), rows)
  redis.call('DEL', held_key(token))
  end_lease('tokens', token)
  return #rows
end
"""

REMOVE_SNAPSHOT = script_with(BUFFER, OUTBOX, _RELEASE)("""
-- further ARGV: token, number of rows, their numbers, the messages
local ids, mine = arguments(4, 3 + ARGV[3]), {}
for i, lease in ipairs(ask('HMGET', key('leases'), ids)) do
  if lease == ARGV[2] then mine[#mine + 1] = ids[i] end
end
local at = 4 + ARGV[3]
if at <= #ARGV and #mine < #ids then return false end
local stored, places = ask('HMGET', key('rows'), mine), fresh(at)
outbox_sound(hashes_of(places))
delete(mine, stored)
release(ARGV[2])
add(places)
return #mine
""")

RELEASE_SNAPSHOT = script_with(BUFFER, _RELEASE)("""
-- further ARGV: token
if not redis.call('ZSCORE', key('tokens'), ARGV[2]) then return 0 end
return release(ARGV[2])
""")

RENEW = _script("""
-- further ARGV: token, lease, new number of attempts of a batch (or '')
local first = redis.call('HGET', key('holders'), ARGV[2])
local kind, which = first and 'sealed' or 'tokens', first or ARGV[2]
local ends = redis.call('ZSCORE', key(kind), which)
if not ends or tonumber(ends) <= now then return false end
if first and ARGV[4] ~= '' then set_attempts(first, ARGV[4]) end
return lend(kind, which, ARGV[3])
""")

REMOVE_ONE = _script("""
-- further ARGV: number of the row; 1: remove it even if it has a live lease or is in a batch
local row = ARGV[2]
local stored = redis.call('HGET', key('rows'), row)
if not stored then return 'gone' end
local lease = redis.call('HGET', key('leases'), row)
local first = batch_of(lease)
local ends = lease and not first and redis.call('ZSCORE', key('tokens'), lease)
if ARGV[3] ~= '1' and (first or ends and tonumber(ends) > now) then return 'leased' end
if first then
  local batch, left = held_batch(first), {}
  for _, each in ipairs(batch[5]) do
    if each ~= row then left[#left + 1] = each end
  end
  batch[5] = left
  redis.call('HSET', key('batches'), first, cmsgpack.pack(batch))
  if #left == 0 then end_batch(first, batch[4]) end
elseif lease then
  leave_snapshot(lease, {row})
end
delete({row}, {stored})
return 'done'
""")

REMOVE_ALL = _script("""
local rows = redis.call('ZRANGE', key('order'), 0, -1)
local stored, tokens = ask('HMGET', key('rows'), rows), redis.call('ZRANGE', key('tokens'), 0, -1)
delete(rows, stored)
local packed = tonumber(redis.call('HGET', key('types'), 'pack') or '0')
for _, token in ipairs(tokens) do redis.call('DEL', held_key(token)) end
for _, group in ipairs(redis.call('HKEYS', key('packed'))) do redis.call('UNLINK', pack_key(group)) end
for _, first in ipairs(redis.call('HKEYS', key('batches'))) do redis.call('UNLINK', sealed_key(first)) end
local kinds = 'tokens begins leases sealed batches holders deadlines packed due types given since early early_due'
for kind in string.gmatch(kinds, '[%a_]+') do
  redis.call('DEL', key(kind))
end
return #rows + packed
""")

PAGE = _script("""
-- further ARGV: number before the page, limit
local rows = redis.call('ZRANGEBYSCORE', key('order'), '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])
return {rows, ask('HMGET', key('rows'), rows)}
""")
