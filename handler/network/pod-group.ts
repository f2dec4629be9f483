import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { unlessGone } from './unless-gone.ts'

/**
 * Where the kubelet has the control groups of pods, one of which belongs to the agent itself. With its driver `cgroupfs`,
 * a pod has one of `ROOT/podUID` and `ROOT/QOS/podUID`. With `systemd`, it has one of `NAME.slice/NAME-podUID.slice` and
 * `NAME.slice/NAME-QOS.slice/NAME-QOS-podUID.slice`, and underscores in the UID.
 */
export type PodGroups =
  | { readonly driver: 'cgroupfs'; readonly root: string }
  | { readonly driver: 'systemd'; readonly root: string; readonly name: string }

/** Pods whose requests equal their limits have a group beside these. */
const qualities = ['burstable', 'besteffort'] as const

/** A component of a control group's path that names a pod. */
const podComponent = /^(?:(.*)-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(\.slice)?$/

/** The uid of the pod to which a process belongs, by the content of its file `cgroup`. */
export function podOf(cgroup: string): string | undefined {
  return pathsOf(cgroup)
    .map(({ components }) => components[indexOfPod(components)])
    .find((component) => component !== undefined)
    ?.match(podComponent)?.[2]
    ?.replaceAll('_', '-')
}

/** The outermost: a container that manages control groups of its own can name those below it as it likes. */
const indexOfPod = (components: readonly string[]): number =>
  components.findIndex((component) => podComponent.test(component))

/** Of each hierarchy. */
const pathsOf = (cgroup: string): { readonly controllers: string; readonly components: readonly string[] }[] =>
  cgroup.split('\n').map((line) => {
    const [, controllers = '', ...path] = line.split(':')
    return {
      controllers,
      components: path
        .join(':')
        .split('/')
        .filter((component) => component !== ''),
    }
  })

/**
 * @param cgroup the file `cgroup` of the agent, as the node sees it
 * @param mount the directory of the node's control groups, usually /sys/fs/cgroup
 * @throws if the agent does not run in a pod
 */
export function findPodGroups(cgroup: string, mount: string): PodGroups {
  const { controllers, components } = pathsOf(cgroup).find(({ components: all }) => indexOfPod(all) >= 0) ?? {
    controllers: '',
    components: [],
  }
  const index = indexOfPod(components)
  const [, prefix, , slice] = podComponent.exec(components[index] ?? '') ?? []
  if (index < 0) throw new Error(`the control group of the network agent is not that of a pod: ${cgroup.trim()}`)
  const hierarchy = join(mount, directoryOf(controllers, mount))
  const quality = qualities.find((one) =>
    slice === undefined ? components[index - 1] === one : prefix?.endsWith(`-${one}`),
  )
  const root = join(hierarchy, ...components.slice(0, quality === undefined ? index : index - 1))
  if (slice === undefined) return { driver: 'cgroupfs', root }
  const name = quality === undefined ? prefix : prefix?.slice(0, -quality.length - 1)
  return { driver: 'systemd', root, name: name ?? '' }
}

/** A hierarchy of version 1 is mounted at the names of its controllers; that of version 2 may be mounted beside them. */
function directoryOf(controllers: string, mount: string): string {
  if (controllers !== '') return controllers.replace(/^name=/, '')
  return readdirSync(mount).includes('unified') ? 'unified' : ''
}

/** The groups that a pod can have, one of which exists while it runs. */
export function candidatesFor(groups: PodGroups, podUID: string): string[] {
  if (groups.driver === 'cgroupfs') return ['', ...qualities].map((one) => join(groups.root, one, `pod${podUID}`))
  const { root, name } = groups
  const uid = podUID.replaceAll('-', '_')
  const ofQualities = qualities.map((one) => join(`${name}-${one}.slice`, `${name}-${one}-pod${uid}.slice`))
  return [`${name}-pod${uid}.slice`, ...ofQualities].map((path) => join(root, path))
}

/** The kubelet and the container runtime create one of the pod and one or two for each container. */
const mostGroups = 64
/** Those that a group got first come first, or those with the lowest numbers. */
const mostProcesses = 64

/**
 * The processes of a pod. Those of its containers come before those in groups that containers create below their own: a
 * pod with many groups or processes hides only these.
 */
export function processesOf(groups: PodGroups, podUID: string): number[] {
  const pending = candidatesFor(groups, podUID).filter((directory) => unlessGone(() => readdirSync(directory)))
  const found: number[] = []
  for (let count = 0; count < mostGroups; count++) {
    const directory = pending.shift()
    if (directory === undefined) break
    const lines = unlessGone(() => readFileSync(join(directory, 'cgroup.procs'), 'utf8')) ?? ''
    found.push(...lines.split('\n', mostProcesses).filter(Boolean).map(Number))
    const below = unlessGone(() => readdirSync(directory, { withFileTypes: true })) ?? []
    pending.push(...below.flatMap((entry) => (entry.isDirectory() ? [join(directory, entry.name)] : [])))
  }
  return found
}
