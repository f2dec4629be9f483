import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { attempt } from './command.ts'
import { ensureImages } from './images.ts'
import { modestRequests, writeKustomization } from './install.ts'
import { importImages, nodePaths } from './node.ts'
import type { Progress, Step } from './progress.ts'
import type { Settings } from './settings.ts'
import { runBeside } from './test.ts'
import { bringUpWithVirtset } from './with-virtset.ts'

/**
 * The upgrade test starts from this commit while the repository has no tag: the last one before v0.2.0 was prepared,
 * which users may have installed from a checkout.
 */
const firstVersion = '8a5893a3e7d7cfafba9226915f9471ee372ff7d5'

/**
 * Upgrades a cluster from the previous version to this one and back while VMs are running. It requires the history of
 * the repository and takes about ten minutes, so it is not part of `make test`.
 *
 * @returns whether everything passed
 */
export async function runUpgradeTest(progress: Progress, settings: Settings): Promise<boolean> {
  const cluster = await bringUpWithVirtset(progress, settings)
  const directory = join(settings.state, 'previous')
  await progress.step('Previous version', 'requires a clone with full history', async (step) => {
    const commit = await previousVersion(step, settings)
    const previous = { ...settings, checkout: await checkOut(step, settings, commit) }
    const images = await ensureImages(step, previous)
    for (const node of readdirSync(join(settings.state, 'nodes')))
      await importImages(step, cluster.binaries, nodePaths(settings.state, node), images)
    writeKustomization(previous, images, directory, modestRequests)
    step.show(commit)
  })
  const bin = (name: string) => join(settings.checkout, 'node_modules/.bin', name)
  const command = [bin('node'), bin('vitest'), 'run', '--project=upgrade']
  const status = await runBeside(command, settings.checkout, {
    PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
    NO_COLOR: '1',
    KUBE_BIN_DIR: cluster.binaries.kubernetes,
    KUBECONFIG: cluster.kubeconfig,
    VIRTSET_STATE: settings.state,
    PREVIOUS: directory,
    CURRENT: join(settings.state, 'install'),
  })
  return status === 0
}

/** The last tag before the current commit: a release is tested against the previous one. */
async function previousVersion(step: Step, { checkout }: Settings): Promise<string> {
  const describe = ['git', '-C', checkout, 'describe', '--tags', '--abbrev=0', '--match=v*']
  const tag = (await attempt([...describe, 'HEAD^'], { log: step.log }))?.trim()
  return tag ?? firstVersion
}

/** Extracts the files of a commit into the cache. */
async function checkOut(step: Step, settings: Settings, commit: string): Promise<string> {
  const directory = join(settings.cache, 'versions', commit)
  if (!existsSync(directory)) {
    const unfinished = `${directory}.unfinished`
    rmSync(unfinished, { recursive: true, force: true })
    mkdirSync(unfinished, { recursive: true })
    const archive = join(unfinished, 'archive.tar')
    await step.run(['git', '-C', settings.checkout, 'archive', '--output', archive, commit])
    await step.run(['tar', '-xf', archive, '-C', unfinished])
    rmSync(archive)
    renameSync(unfinished, directory)
  }
  // The images copy Node from there. The checkout of an earlier run can be gone.
  const modules = join(directory, 'node_modules')
  rmSync(modules, { force: true })
  symlinkSync(join(settings.checkout, 'node_modules'), modules)
  return directory
}
