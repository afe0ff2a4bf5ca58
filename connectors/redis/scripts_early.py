"""The Lua scripts of the aggregator buffer: early results of open groups. ARGV[1] is the name."""

from sluicegate.connectors.redis.scripts_buffer import BUFFER, GATE
from sluicegate.connectors.redis.scripts_leased import OUTBOX, script_with

_SET_BACK = """
-- A time that is later than any that the gate sets now was set while the clock was ahead
local latest = now + math.max(lease, every or 0)
for _, group in ipairs(redis.call('ZRANGEBYSCORE', key('early_due'), '(' .. text(latest), '+inf')) do
  redis.call('ZADD', key('early_due'), text(latest), group)
end
"""

EARLY = script_with(BUFFER, GATE)(
    _SET_BACK
    + """
-- further ARGV: limit
-- Returns of each group: its name, how many results it had, 1 if the last one covers all records, its newest record,
-- the token, and the rows and what they hold, or false and the packs
local most, found = tonumber(ARGV[at]), {}
for _, group in ipairs(redis.call('ZRANGEBYSCORE', key('early_due'), '-inf', text(now))) do
  if #found >= most then break end
  local rows, packs = ready(group), redis.call('LRANGE', pack_key(group), 0, -1)
  local numbers, stored, last = rows.take(rows.count), packs, nil
  if #packs > 0 and (not resolving or resolving.pack) then
    numbers, last = false, last_of(group)
  elseif #numbers > 0 then
    stored, last = ask('HMGET', key('rows'), numbers), tonumber(numbers[#numbers])
  end
  if last then
    local state, own = early_of(group), token .. ':' .. #found
    redis.call('HSET', key('early'), group, cmsgpack.pack({state[1], state[2], own}))
    redis.call('ZADD', key('early_due'), text(now + lease), group)
    found[#found + 1] = {group, state[1], state[2] == last and 1 or 0, last, own, numbers, stored}
  end
end
return found
"""
)

COMPLETE_EARLY = script_with(BUFFER, GATE, OUTBOX)("""
-- further ARGV: number of groups; of each its name, its token, the newest record that the result covers and the number
-- of its messages; then all messages
-- Returns of each group: 1 completed, 0 not
local many, done, wanted, groups = tonumber(ARGV[at]), {}, {}, {}
for i = 1, many do
  local place = at + 4 * i - 3
  local state = early_of(ARGV[place])
  done[i] = state and state[3] ~= '' and state[3] == ARGV[place + 1] and 1 or 0
  for _ = 1, tonumber(ARGV[place + 3]) do wanted[#wanted + 1] = done[i] == 1 end
end
local places = fresh(at + 4 * many + 1, wanted)
outbox_sound(hashes_of(places))
for i = 1, many do
  local group, last = ARGV[at + 4 * i - 3], ARGV[at + 4 * i - 1]
  if done[i] == 1 then
    redis.call('HSET', key('early'), group, cmsgpack.pack({early_of(group)[1] + 1, tonumber(last), ''}))
    redis.call('ZREM', key('early_due'), group)
    groups[#groups + 1] = group
  end
end
expect_early(groups)
add(places)
return done
""")

STATES = script_with(BUFFER)("""
-- Returns of each open group with early results: its name, how many it had, and when the next one is due (or nil)
local stored, states = redis.call('HGETALL', key('early')), {}
for i = 1, #stored, 2 do
  local due = redis.call('ZSCORE', key('early_due'), stored[i])
  states[#states + 1] = {stored[i], cmsgpack.unpack(stored[i + 1])[1], due}
end
return states
""")
