import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readFile, readdir, readlink, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'

/** The uid under which libvirtd and QEMU run, as in a launcher pod. */
export const uid = 107

/** Set by `make test`; the root file system has Debian trixie's libvirtd and QEMU. */
export function libvirtRootfs(): string {
  const rootfs = process.env['LIBVIRT_ROOTFS']
  if (rootfs === undefined)
    throw new Error('LIBVIRT_ROOTFS is not set: run `make rootfs` and set it to the path it prints')
  return rootfs
}

/** A directory that the chroot sees as `inside` and the test as `outside`, owned by uid 107. */
export interface RunDirectory {
  readonly inside: string
  readonly outside: string
}

/** Creates a short directory, because a socket's path has at most 107 bytes, including that of the root file system. */
export async function makeRunDirectory(rootfs: string): Promise<RunDirectory> {
  const outside = await mkdtemp(join(rootfs, 'tmp', 'run-'))
  await chown(outside, uid, uid)
  return { outside, inside: `/tmp/${basename(outside)}` }
}

export interface Confined {
  readonly process: ChildProcess
  /** Resolves when everything inside is gone. */
  readonly ended: Promise<void>
  /** The host PIDs of the processes inside whose command is `command`. */
  pids(command: string): Promise<number[]>
  stop(): Promise<void>
}

/**
 * Runs `script` with /bin/sh as PID 1 (which reaps promptly) of its own mount and PID namespaces, chrooted into
 * `rootfs`, with UID 107 and no capabilities. `binds` are host paths that are mounted read-only inside. `stop` kills
 * PID 1, and with it every process and mount. The same happens when the test process dies. Requires root, and /sys,
 * because libvirt reads CPU affinity from it.
 */
export function confine(options: {
  rootfs: string
  directory: RunDirectory
  script: string
  env?: { [name: string]: string }
  binds?: { [inside: string]: string }
  /** In-memory file systems owned by UID 107: path inside → size in bytes. */
  memory?: { [inside: string]: number }
  /** The host path of the cgroup that contains everything inside. */
  cgroup?: string
  oomScoreAdj?: number
  /** The name of the network namespace that is the pod's; that of the test if absent. */
  network?: string
}): Confined {
  const { rootfs, directory } = options
  const home = directory.inside
  const env = {
    PATH: '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: home,
    XDG_RUNTIME_DIR: home,
    XDG_CONFIG_HOME: home,
    XDG_CACHE_HOME: home,
    XDG_DATA_HOME: home,
    TMPDIR: home,
    ...options.env,
  }
  const mounts = [
    ...(options.cgroup === undefined ? [] : [`echo $$ > ${options.cgroup}/cgroup.procs`]),
    `echo ${options.oomScoreAdj ?? 0} > /proc/self/oom_score_adj`,
    `mount -t proc proc ${rootfs}/proc`,
    `mount --rbind /dev ${rootfs}/dev`,
    `mount --rbind /sys ${rootfs}/sys`,
    `mount -t tmpfs tmpfs ${rootfs}/dev/shm`,
    // libvirt's lock of an open console must not outlive the pod: the PID in it is that of another process in the next.
    `mount -t tmpfs -o mode=1777 tmpfs ${rootfs}/run/lock`,
    ...Object.entries(options.memory ?? {}).flatMap(([inside, bytes]) => [
      `mkdir -p ${rootfs}${inside}`,
      `mount -t tmpfs -o size=${bytes},uid=107,gid=107,mode=700 tmpfs ${rootfs}${inside}`,
    ]),
    ...Object.entries(options.binds ?? {}).map(
      ([inside, outside]) => `mount --bind -o ro ${outside} ${rootfs}${inside}`,
    ),
  ]
  const enter =
    'exec chroot "$ROOTFS" setpriv --reuid 107 --regid 107 --clear-groups --bounding-set -all --no-new-privs --pdeathsig KILL'
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const namespaces = '--pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private'.split(' ')
  const inside = [`${mounts.join('\n')}\n${enter} env -i "$@"`, 'sh', ...variables, 'sh', '-c', options.script]
  const enterNetwork = options.network === undefined ? [] : ['nsenter', `--net=/var/run/netns/${options.network}`]
  const [program = '', ...args] = [...enterNetwork, 'setpriv', ...namespaces, 'sh', '-ec', ...inside]
  const child = spawn(program, args, {
    env: { PATH: process.env['PATH'] ?? '', ROOTFS: rootfs },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  return {
    process: child,
    ended,
    pids: (command) => namespacePids(child.pid, command),
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      await rm(directory.outside, { recursive: true, force: true })
    },
  }
}

async function namespacePids(unsharePid: number | undefined, command: string): Promise<number[]> {
  const namespace = await readlink(`/proc/${unsharePid}/ns/pid_for_children`)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async (pid) => {
      try {
        const name = (await readFile(`/proc/${pid}/comm`, 'utf8')).trim()
        return name === command && (await readlink(`/proc/${pid}/ns/pid`)) === namespace
      } catch {
        return false // it ended while we looked
      }
    }),
  )
  return pids.filter((_, index) => found[index]).map(Number)
}

/** Creates a directory that is owned by UID 107. */
export async function makeOwned(path: string): Promise<string> {
  await mkdir(path, { recursive: true })
  await chown(path, uid, uid)
  return path
}

/** Of Linux's Documentation/admin-guide/devices.txt, which both belong to the class `misc`. */
const minors = { kvm: 232, tun: 200 } as const

/**
 * A node of its own for a device, because the host's may deny access to UID 107. As a read-only mount, the directory is
 * read-only, not the device.
 */
export async function makeDevice(folder: string, name: keyof typeof minors): Promise<string> {
  const path = join(folder, name)
  await promisify(execFile)('mknod', [path, 'c', '10', String(minors[name])])
  await chmod(path, 0o666)
  return path
}
