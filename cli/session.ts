import type { Capabilities } from '../api/capabilities.ts'
import type { CompleteSettings } from './complete.ts'
import type { Manifest } from '../inventory/manifests.ts'
import { Usage, exitCodes, withoutCluster, type ExitCode } from './failure.ts'
import type { Flags } from './flags.ts'
import type { ObjectPresets } from './objects.ts'
import type { Output } from './output.ts'
import type { Paint } from './paint.ts'
import type { Cluster, World } from './world.ts'

/**
 * Shared setup of commands, by their flags. Modules are loaded when used, so that no command waits for another's code.
 */

/**
 * Runs a command that completes VMs: offline with `--presets` or without rules, otherwise with the presets of the
 * cluster.
 */
export async function withCompletion(
  flags: Flags,
  world: World,
  run: (settings: CompleteSettings, cluster: Cluster | undefined) => Promise<ExitCode>,
): Promise<ExitCode> {
  const allowHostReach = flags.allowHostReach === true
  const skipRules = flags.validate === false
  const rest = {
    allowHostReach,
    skipRules,
    ...(flags.uid === undefined ? {} : { uid: flags.uid }),
  }
  if (flags.presets !== undefined || allowHostReach || skipRules) {
    const [{ readManifests }, { offline, quarantineWarning }, { inventoryOf, presetsOf }, { equalNodes }] =
      await Promise.all([
        import('./input.ts'),
        import('./scope.ts'),
        import('../inventory/manifests.ts'),
        import('../completion/nodes.ts'),
      ])
    const namespace = flags.namespace ?? 'default'
    const manifests = await readManifests(flags.presets ?? [], world.stdin)
    const presets = presetsOf(manifests, namespace)
    const objects = await objectPresetsIn(manifests, flags.schema, namespace)
    const broken = [...presets.quarantined.values(), ...(objects?.quarantined ?? []).map((one) => one.quarantined)]
    const warnings = broken.map(quarantineWarning)
    if (flags.quiet !== true) for (const warning of warnings) world.err(`Warning: ${warning}\n`)
    const capabilities = equalNodes(await capabilitiesOf(flags.capabilities))
    const namespaceLabels = flags.namespaceLabels ?? {}
    const inventory = inventoryOf(presets, { labels: namespaceLabels, capabilities })
    const optional = objects === undefined ? {} : { objects }
    const code = await run({ ...rest, ...optional, scopes: offline(inventory), namespace, namespaceLabels }, undefined)
    const isWarned = warnings.length > 0 && flags.strict === true
    return code === exitCodes.fine && isWarned ? exitCodes.warnings : code
  }
  if (flags.namespaceLabels !== undefined)
    throw new Usage('--namespace-labels requires --presets: in a cluster the namespace has its own labels')
  if (flags.schema !== undefined)
    throw new Usage('--schema requires --presets: the presets of a cluster are only for VMs')
  const cluster = await clusterOf(flags, world)
  const [{ online, nodesOf, clusterFailure }, { equalNodes }] = await Promise.all([
    import('./cluster.ts'),
    import('../completion/nodes.ts'),
  ])
  try {
    const namespace = flags.namespace ?? cluster.namespace ?? 'default'
    const capabilities =
      flags.capabilities === undefined
        ? await nodesOf(cluster.kube)
        : equalNodes(await capabilitiesOf(flags.capabilities))
    return await run({ ...rest, scopes: online(cluster, capabilities), namespace }, cluster)
  } catch (error) {
    throw clusterFailure(error, cluster)
  } finally {
    await cluster.kube.close()
  }
}

/** Undefined without presets for other kinds and without schemas of them. */
async function objectPresetsIn(
  manifests: readonly Manifest[],
  schemas: readonly string[] | undefined,
  namespace: string,
): Promise<ObjectPresets | undefined> {
  const { isObjectPreset } = await import('../inventory/manifests.ts')
  if (schemas === undefined && !manifests.some(isObjectPreset)) return undefined
  const { objectPresetsOf, readKinds } = await import('./objects.ts')
  return objectPresetsOf(manifests, await readKinds(schemas ?? []), namespace)
}

export async function clusterOf(
  { kubeconfig, context }: Pick<Flags, 'kubeconfig' | 'context'>,
  world: Pick<World, 'cluster'>,
  without = withoutCluster,
): Promise<Cluster> {
  try {
    return await world.cluster({
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    })
  } catch (error) {
    const { errorText } = await import('./failure.ts')
    throw new Usage(`${errorText(error)}${without}`, { cause: error })
  }
}

export async function capabilitiesOf(file: string | undefined): Promise<Capabilities> {
  if (file === undefined) return (await import('../completion/capabilities.ts')).bundledCapabilities
  const { readCapabilities } = await import('../api/capabilities.ts')
  const { readText } = await import('./input.ts')
  const text = await readText(file)
  try {
    return readCapabilities(JSON.parse(text))
  } catch (error) {
    const { errorText } = await import('./failure.ts')
    throw new Usage(`${file}: ${errorText(error)}`, { cause: error })
  }
}

export async function paintOf({ color }: Pick<Flags, 'color'>, world: World): Promise<Paint> {
  const { painter } = await import('./paint.ts')
  return painter(world, color !== false)
}

/** Runs a command that prints its results, or writes one file per result with `--out-dir`. */
export async function withOutput(
  { outDir }: Pick<Flags, 'outDir'>,
  world: World,
  run: (output: Output, step: (word: string) => void) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { filed, printed } = await import('./output.ts')
  const output = outDir === undefined ? printed(world) : await filed(outDir)
  return withProgress(world, (step) => run(output, step))
}

export async function withProgress(
  world: World,
  run: (step: (word: string) => void) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { progress } = await import('./output.ts')
  const { step, end } = progress(world, world.isErrTerminal, world.now)
  try {
    return await run(step)
  } finally {
    end()
  }
}
