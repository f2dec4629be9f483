import type { Capabilities } from '../api/capabilities.ts'
import type { CompleteSettings } from './complete.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import { warningLine } from './error-line.ts'
import { Usage, exitCodes, withoutCluster, withoutSchema, type ExitCode } from './failure.ts'
import type { Flags } from './flags.ts'
import type { ObjectScopes } from './object-scope.ts'
import type { KindSource } from './object-kinds.ts'
import type { Output } from './output.ts'
import type { Paint } from './paint.ts'
import type { Cluster, World } from './world.ts'

/**
 * Shared setup of commands, by their flags. Modules are loaded when used, so that no command waits for another's code.
 */

/**
 * Runs a command that completes VMs: offline with `--presets`, `--no-presets` or without rules, otherwise with the
 * presets of the cluster.
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
    const manifests = await readManifests(flags.presets || [], world.stdin)
    const presets = presetsOf(manifests, namespace)
    let isWarned = false
    const warn = (preset: QuarantinedPreset): void => {
      isWarned = true
      if (flags.quiet !== true) world.err(warningLine(quarantineWarning(preset)))
    }
    for (const preset of presets.quarantined.values()) warn(preset)
    const capabilities = equalNodes(await capabilitiesOf(flags.capabilities))
    const namespaceLabels = flags.namespaceLabels ?? {}
    const inventory = inventoryOf(presets, { labels: namespaceLabels, capabilities })
    return withKinds(flags, world, async (source) => {
      const given = { manifests, namespace, namespaceLabels, onBroken: warn }
      const objects = objectScopes(async () => (await import('./object-scope.ts')).scopesOfFiles(source, given))
      const code = await run({ ...rest, objects, scopes: offline(inventory), namespace }, undefined)
      return code === exitCodes.fine && isWarned && flags.strict === true ? exitCodes.warnings : code
    })
  }
  if (flags.namespaceLabels !== undefined)
    throw new Usage('--namespace-labels requires --presets: in a cluster the namespace has its own labels')
  if (flags.schema !== undefined)
    throw new Usage('--schema requires --presets: for presets of a cluster, its own schemas count')
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
    const objects = objectScopes(async () => {
      const [{ scopesOfCluster }, { kindsOfCluster }] = await Promise.all([
        import('./object-scope.ts'),
        import('./object-kinds.ts'),
      ])
      return scopesOfCluster(
        cluster,
        kindsOfCluster(() => Promise.resolve(cluster.kube)),
      )
    })
    return await run({ ...rest, objects, scopes: online(cluster, capabilities), namespace }, cluster)
  } catch (error) {
    throw clusterFailure(error, cluster)
  } finally {
    await cluster.kube.close()
  }
}

/** Loads the code for other kinds when the first object of one is met. */
function objectScopes(make: () => Promise<ObjectScopes>): ObjectScopes {
  let made: Promise<ObjectScopes> | undefined
  return { of: async (target, namespace) => (await (made ??= make())).of(target, namespace) }
}

/** Runs a command with the kinds of `--schema`; without it, with those of the cluster, which is used only if needed. */
export async function withKinds(
  flags: Pick<Flags, 'schema' | 'kubeconfig' | 'context'>,
  world: Pick<World, 'cluster'>,
  run: (source: KindSource) => Promise<ExitCode>,
): Promise<ExitCode> {
  const load = () => import('./object-kinds.ts')
  if (flags.schema !== undefined) {
    const { kindsOfFiles, readKinds } = await load()
    return run(kindsOfFiles(await readKinds(flags.schema)))
  }
  let cluster: Promise<Cluster> | undefined
  let source: KindSource | undefined
  const kube = async () => (await (cluster ??= clusterOf(flags, world, withoutSchema))).kube
  const read: KindSource['read'] = async (targets) => {
    source ??= (await load()).kindsOfCluster(kube)
    return source.read(targets).catch(async (error: unknown) => {
      if (!(error instanceof Usage)) throw error
      const { targetText } = await import('../api/object-preset.ts')
      throw new Usage(`${targets.map(targetText).join(', ')} needs the schema of its kind: ${error.message}`)
    })
  }
  try {
    return await run({ read })
  } catch (error) {
    const opened = await cluster?.catch(() => undefined)
    if (opened === undefined) throw error
    const { clusterFailure } = await import('./cluster.ts')
    throw clusterFailure(error, opened, withoutSchema)
  } finally {
    await (await cluster?.catch(() => undefined))?.kube.close()
  }
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

/** Runs a command that needs the cluster, and then closes its connections. */
export async function withCluster<T extends number>(
  flags: Flags,
  world: World,
  run: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const cluster = await clusterOf(flags, world, '')
  try {
    return await run(cluster)
  } finally {
    await cluster.kube.close()
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
  const { step, end } = progress(world)
  try {
    return await run(step)
  } finally {
    end()
  }
}
