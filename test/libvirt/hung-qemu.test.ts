import { expect, test, type TestContext } from 'vitest'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { smallVm } from './vm.ts'

/** QEMUs that hang, each for as long as libvirt and the launcher wait: the tests wait at the same time. */

/** A launcher with a guest that ignores the power button, and its QEMU stopped. */
async function startHung(onFinished: TestContext['onTestFinished']): Promise<RunningLauncher> {
  const launcher = await startLauncher()
  onFinished(() => launcher.stop())
  expect(await launcher.put(smallVm())).toMatchObject({ phase: 'Running' })
  await launcher.signal('qemu-system-x86', 'SIGSTOP')
  return launcher
}

const isUnresponsive = ({ unresponsiveSince }: DomainReport) => unresponsiveSince !== undefined

test.concurrent('a QEMU that hangs is reported as unresponsive until it responds', async ({
  onTestFinished: onFinished,
}) => {
  const launcher = await startHung(onFinished)
  expect(await launcher.report()).toMatchObject({ phase: 'Running' })
  expect(await launcher.reported('QEMU hangs', isUnresponsive)).toMatchObject({ phase: 'Running' })
  await launcher.signal('qemu-system-x86', 'SIGCONT')
  await launcher.reported('QEMU responds', (report) => !isUnresponsive(report))
})

test.concurrent('a shutdown is accepted at once while QEMU hangs and libvirt waits for it, and QEMU is killed', async ({
  onTestFinished: onFinished,
}) => {
  const launcher = await startHung(onFinished)
  const startMs = performance.now()
  await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 3600 })
  await launcher.ask('POST', '/destroy')
  // libvirt waits for 10 s after SIGTERM.
  expect(performance.now() - startMs).toBeLessThan(10_000)
  await launcher.reported('it ended', ({ exit }) => exit === 'Failed')
})
