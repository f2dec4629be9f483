import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'

import { ensureBinaries, ensureTool } from './binaries.ts'
import { inBackground } from './cgroup.ts'
import { ensureLinuxGuest } from './linux-guest.ts'
import { ensureOlderNode } from './older-node.ts'
import { ensurePackages, hostPackages, testPackages } from './packages.ts'
import type { Progress } from './progress.ts'
import { ensureRootfs } from './rootfs.ts'
import type { Settings } from './settings.ts'
import { kubeconfigOf } from './up.ts'
import { bringUpWithVirtset } from './with-virtset.ts'

/** As `npm run check`. */
const checks = [
  ['types', 'tsc'],
  ['types of the page', 'tsc', '-p', 'ui'],
  ['lint', 'oxlint'],
  ['format', 'oxfmt', '--check'],
] as const

/**
 * Runs every test: all of vitest's projects with their requirements, which are the Kubernetes binaries, a root file
 * system with libvirt and the cluster, and the checks of types, lint and format. Ends with vitest's summary and a line
 * with the totals.
 *
 * @returns whether everything passed
 */
export async function runTests(progress: Progress, settings: Settings): Promise<boolean> {
  const bin = (name: string) => join(settings.checkout, 'node_modules/.bin', name)
  const directory = settings.checkout
  // The scripts of the checkers run `node`, which must be the Node that runs this.
  const environment = { PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`, NO_COLOR: '1' }
  await progress.step('Packages', 'check that apt-get works as root', (step) =>
    ensurePackages(step, [...Object.keys(hostPackages), ...Object.keys(testPackages)]),
  )
  const binaries = await progress.step('Kubernetes', 'requires Go >= 1.26 and a Go module proxy', (step) =>
    ensureBinaries(step, settings),
  )
  const rootfs = await progress.step('Root file system with libvirt', 'check that a Debian mirror responds', (step) =>
    ensureRootfs(step, settings),
  )
  const linuxGuest = await progress.step('Linux guest', 'check that a Debian mirror responds', (step) =>
    ensureLinuxGuest(step, settings),
  )
  const helm = await progress.step('Helm', 'requires Go >= 1.26 and a Go module proxy', (step) =>
    ensureTool(step, settings, 'helm'),
  )
  await progress.step('Multus', 'requires Go >= 1.26 and a Go module proxy', (step) =>
    ensureTool(step, settings, 'multus'),
  )
  const kubeRouter = await progress.step('kube-router', 'requires Go >= 1.26 and a Go module proxy', (step) =>
    ensureTool(step, settings, 'kube-router'),
  )
  const olderNode = await progress.step('Node 22', 'check that the npm registry responds', (step) =>
    ensureOlderNode(step, settings),
  )
  const results = join(settings.cache, 'log/tests.json')
  const blobs = join(settings.cache, 'log/blobs')
  for (const old of [results, blobs]) rmSync(old, { recursive: true, force: true })
  const vitest = (prefix: readonly string[], ...options: readonly string[]) =>
    runBeside([...prefix, bin('node'), bin('vitest'), ...options], directory, {
      PATH: environment.PATH,
      // Tests start about a hundred processes.
      NODE_COMPILE_CACHE: join(settings.cache, 'compile'),
      // The API servers of tests live for a minute: collecting their garbage less often saves a quarter of their CPU.
      GOGC: '400',
      GOMEMLIMIT: '1GiB',
      KUBE_BIN_DIR: binaries.kubernetes,
      LIBVIRT_ROOTFS: rootfs,
      LINUX_GUEST: linuxGuest,
      HELM: helm,
      KUBE_ROUTER: kubeRouter,
      NODE_22: olderNode,
      KUBECONFIG: kubeconfigOf(settings),
      VIRTSET_STATE: settings.state,
    })
  const part = (projects: readonly string[], prefix: readonly string[] = [], ...options: readonly string[]) => {
    const blob = `--outputFile.blob=${join(blobs, projects.join('-'))}.json`
    const selection = projects.map((each) => `--project=${each}`)
    return vitest(prefix, 'run', '--reporter=default', '--reporter=blob', blob, ...selection, ...options)
  }
  // Most tests with servers or guests wait for half of their time.
  const waiting = `--maxWorkers=${Math.ceil(1.5 * Math.max(2, availableParallelism()))}`
  // Before the cluster starts, because even an idle one takes a third of two CPUs.
  const parts = [await part(['apiserver', 'libvirt'], [], waiting)]
  parts.push(await part(['overload']))
  await bringUpWithVirtset(progress, settings, true)
  // Tests on the cluster mostly wait, so the checks and the tests that need no server run in the meantime. Others would
  // miss their deadlines on few CPUs.
  const runCluster = async () => {
    parts.push(await part(['cluster-parallel'], [], waiting))
    parts.push(await part(['cluster']))
  }
  const failedChecks: string[] = []
  const runUnit = async () => {
    for (const [title, ...command] of checks) {
      const status = await runBeside([...inBackground(), bin(command[0]), ...command.slice(1)], directory, environment)
      if (status !== 0) failedChecks.push(title)
    }
    parts.push(await part(['unit', 'dist'], inBackground()))
  }
  await Promise.all([runCluster(), runUnit()])
  const whole = await vitest(
    [],
    `--merge-reports=${blobs}`,
    '--reporter=dot',
    '--reporter=json',
    `--outputFile.json=${results}`,
  )
  const hasPassed = [...parts, whole].every((status) => status === 0)
  if (failedChecks.length > 0) {
    console.log(`failed checks: ${failedChecks.join(', ')}; \`npm run format\` fixes format and some lint`)
  }
  console.log(
    existsSync(results) ? summary(readFileSync(results, 'utf8'), failedChecks.length, hasPassed) : '0 passed, 1 failed',
  )
  return hasPassed && failedChecks.length === 0
}

/**
 * The totals of vitest's JSON report. A file that could not be loaded counts as one failure, as do each failed check
 * and a failure outside of tests: an uncaught error, or a part of the tests that ended without a report.
 */
export function summary(report: string, failedChecks: number, hasPassed: boolean): string {
  const { numPassedTests, numFailedTests, testResults }: Report = JSON.parse(report)
  const broken = testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0).length
  const failed = numFailedTests + broken + failedChecks
  return `${numPassedTests} passed, ${hasPassed ? failed : Math.max(failed, 1)} failed`
}

interface Report {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[]
}

/** Runs a command without a terminal, and returns its exit status. */
export function runBeside(
  [program = '', ...rest]: readonly string[],
  directory: string,
  environment: Readonly<Record<string, string>>,
): Promise<number | null> {
  // Several commands run concurrently, so none can use the terminal.
  const child = spawn(program, rest, {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  child.stdout.pipe(process.stdout, { end: false })
  child.stderr.pipe(process.stderr, { end: false })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
}
