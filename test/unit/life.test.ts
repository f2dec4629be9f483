import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { histories, live } from '../life/history.ts'
import { actOnce, faultsOf, leftoversOf, settle } from '../life/invariant.ts'
import { createWorld, type World } from '../life/world.ts'

const numRuns = fc.readConfigureGlobal().numRuns ?? 400
/** A history takes a few milliseconds, ten times that under load. */
const timeoutMs = Math.max(600_000, numRuns * 50)

test(
  'a VM has at most one guest, none is lost, and each end has a reason, whatever is lost, late or out of order',
  () => {
    expect(() => fc.assert(fc.property(histories(60), live), { numRuns })).not.toThrow()
  },
  timeoutMs,
)

const lie = ({ processes, ...world }: World) => processes.forEach((process) => world.lie(process))
const deleteByForce = (world: World) => world.forceDeletePod(world.podOf('a')!)

test.each([
  ['before its pod is deleted by force', lie, deleteByForce],
  ['after its pod was deleted by force', deleteByForce, lie],
])('a launcher that claims the end of its guest %s keeps its VM until its end is observed', (_, first, second) => {
  const world = createWorld()
  /** The kubelet does not act. */
  const act = () => {
    world.observeVm('a')
    world.observePods()
    world.reconcile('a')
    world.observeAtHandler('n1', 'a')
    world.handle('n1', 'a')
  }
  world.create('a', true)
  for (let round = 0; round < 4; round++) actOnce(world)
  first(world)
  act()
  world.delete('a', 'background')
  act()
  second(world)
  for (let round = 0; round < 4; round++) act()
  expect(faultsOf(world)).toEqual([])
  expect(world.vms.get('a')?.status?.phase).toBe('Succeeded')

  world.runKubelet('n1')
  for (let round = 0; round < 2; round++) act()
  expect(world.vms.has('a')).toBe(false)
  settle(world)
  expect([...faultsOf(world), ...leftoversOf(world)]).toEqual([])
})
