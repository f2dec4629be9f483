import { join, resolve } from 'node:path'

import { ensureBinaries } from './binaries.ts'
import { bringDown } from './down.ts'
import { installOnExistingCluster } from './existing-cluster.ts'
import { ensureImages } from './images.ts'
import { ensureLinuxGuest } from './linux-guest.ts'
import { ensurePackages, hostPackages } from './packages.ts'
import { createProgress, StepFailed } from './progress.ts'
import { ensureRootfs } from './rootfs.ts'
import { readSettings } from './settings.ts'
import { showcase } from './showcase.ts'
import { terminal } from './terminal.ts'
import { runTests } from './test.ts'
import { runUpgradeTest } from './upgrade-test.ts'
import { bringUpWithVirtset } from './with-virtset.ts'

const checkout = resolve(import.meta.dirname, '..')

async function main(command: string | undefined): Promise<void> {
  const settings = readSettings(checkout, process.env)
  const progress = createProgress(terminal, join(settings.cache, 'log'))
  const packages = () =>
    progress.step('System packages', 'check that apt-get works as root', (step) =>
      ensurePackages(step, Object.keys(hostPackages)),
    )
  const binaries = () =>
    progress.step('Kubernetes, containerd and CoreDNS', 'requires Go >= 1.26 and a Go module proxy', (step) =>
      ensureBinaries(step, settings),
    )
  switch (command) {
    case 'up': {
      const cluster = await bringUpWithVirtset(progress, settings)
      console.log(await showcase(settings, cluster.kubectl))
      return
    }
    case 'down':
      await bringDown(progress, settings)
      return
    case 'test':
      if (!(await runTests(progress, settings))) process.exitCode = 1
      return
    case 'upgrade-test':
      if (!(await runUpgradeTest(progress, settings))) process.exitCode = 1
      return
    case 'install':
      await installOnExistingCluster(progress, settings)
      return
    case 'binaries':
      console.log((await binaries()).kubernetes)
      return
    case 'rootfs': {
      await packages()
      const path = await progress.step('Root file system with libvirt', 'check that a Debian mirror responds', (step) =>
        ensureRootfs(step, settings),
      )
      console.log(path)
      return
    }
    case 'linux-guest': {
      await packages()
      const path = await progress.step('Linux guest', 'check that a Debian mirror responds', (step) =>
        ensureLinuxGuest(step, settings),
      )
      console.log(path)
      return
    }
    case 'images': {
      await packages()
      const programs = await binaries()
      const images = await progress.step('Images', 'see the log', (step) => ensureImages(step, settings, programs))
      for (const image of images) console.log(image.reference)
      return
    }
    default:
      throw new Error(
        `usage: main.ts up | down | test | upgrade-test | install | images | binaries | rootfs | linux-guest, not ${command}`,
      )
  }
}

try {
  await main(process.argv[2])
} catch (error) {
  // The failure of a step has been shown.
  if (!(error instanceof StepFailed)) console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
