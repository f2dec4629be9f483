import { expect, test } from 'vitest'
import { mountsOf } from './guest-mounts.ts'
import { AgentUnclear, AgentUnresponsive } from './libvirt/agent-errors.ts'
import { LibvirtError } from './libvirt/errors.ts'

type Agent = Parameters<typeof mountsOf>[1]
const connected: Agent = { state: 'connected', mayReturn: false, isFrozen: false }
const gone: Agent = { state: 'disconnected', mayReturn: false, isFrozen: false }
const late = () => Promise.reject(new AgentUnresponsive('late'))
const refusing = (message: string) => () => Promise.reject(new LibvirtError(message, 1, 10))
const refuses = 'AgentBusy: the agent in the guest does not report its file systems: '
const mounted = () => Promise.resolve(['/data'])
const returning = 'AgentBusy: the agent in the guest has disconnected, and has 5 minutes to return'

test.each<[string, Agent, () => Promise<readonly string[]>, unknown]>([
  ['an agent that answers', connected, mounted, ['/data']],
  ['an agent that refuses the question', connected, refusing('it is disabled'), `${refuses}it is disabled`],
  ['an agent whose answer is not clear', connected, () => Promise.reject(new AgentUnclear('a')), 'AgentBusy: a'],
  ['an agent that refuses at length', connected, refusing('x'.repeat(300)), `${refuses}${'x'.repeat(255)}…`],
  ['an agent that does not answer', connected, late, 'AgentBusy: the agent in the guest does not answer'],
  ['an agent that did not answer before', { ...connected, state: 'unresponsive' }, mounted, ['/data']],
  ['a frozen guest', { ...connected, isFrozen: true }, mounted, 'AgentBusy: the guest is frozen for a snapshot'],
  ['no agent', gone, mounted, undefined],
  ['no channel', { ...gone, state: undefined }, mounted, undefined],
  ['an agent that was connected a moment ago', { ...gone, mayReturn: true }, mounted, returning],
  ['a channel that was open a moment ago', { ...gone, state: undefined, mayReturn: true }, mounted, returning],
])('%s', async (_, agent, read, expected) => {
  expect(await mountsOf(read, agent).catch(String)).toEqual(expected)
})
