import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { attempt, CommandFailed, run } from '../../cluster/command.ts'
import { guestHelp } from '../../cluster/guest.ts'
import type { AttachedVolumeStatus, AttachmentPod } from '../../api/attached-volume.ts'
import type { FreezeStatus } from '../../api/virtual-machine.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { isNotFound } from '../../runtime/api-error.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { openConsole } from '../launcher-client.ts'
import { pauseAfter } from '../until.ts'
import { deaf } from './vms.ts'

/** The parts of a VM that tests read. */
export interface VirtualMachine {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly annotations?: Readonly<Record<string, string>>
    readonly finalizers?: readonly string[]
    readonly deletionTimestamp?: string
  }
  readonly spec: { readonly domain: Readonly<Record<string, unknown>> }
  readonly status?: {
    readonly phase?: string
    readonly reason?: string
    readonly message?: string
    readonly nodeName?: string
    readonly podUID?: string
    readonly podIP?: string
    readonly conditions?: readonly Condition[]
    readonly interfaces?: readonly {
      readonly mac: string
      readonly ips?: readonly string[]
      readonly guestIPs?: readonly string[]
    }[]
    readonly guest?: { readonly os?: object }
    readonly frozen?: FreezeStatus
    readonly attachedVolumes?: readonly AttachedVolumeStatus[]
    readonly attachmentPods?: readonly AttachmentPod[]
    readonly domain?: Readonly<Record<string, unknown>>
  }
}

export interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
  readonly message: string
}

/** The cluster of `make test`, and the namespace of a test file. */
export interface TestCluster {
  readonly namespace: string
  /** The directory of the cluster's own files. */
  readonly state: string
  /** kubectl for the namespace, without a command. */
  readonly command: readonly string[]
  kubectl(...rest: string[]): Promise<string>
  /** Presets first, and the others once the presets are accepted: the webhooks know new presets a moment later. */
  apply(...objects: object[]): Promise<void>
  /** Creates an object with kubectl; returns its exit status and output. */
  create(object: object, ...flags: string[]): Promise<{ readonly status: number | undefined; readonly output: string }>
  /** Creates a VM, again until it contains the text: each replica of the webhooks knows a new preset a moment later. */
  createWith(text: string, vm: object): Promise<void>
  vm(name: string): Promise<VirtualMachine | undefined>
  /** Waits until a VM reaches a state; dumps the namespace if it does not before the deadline. */
  untilVm(
    name: string,
    what: string,
    isWanted: (vm: VirtualMachine) => boolean,
    deadlineMs?: number,
  ): Promise<VirtualMachine>
  untilGone(name: string, deadlineMs?: number): Promise<void>
  /** Unlike an absent `vm`: a request that fails, as while the API server restarts, does not count. */
  isGone(name: string): Promise<boolean>
  /**
   * Waits until a deleted VM is gone, and for the event that its guest powered off. What the guest writes to its
   * console at its end can be lost.
   */
  untilPoweredOff(name: string): Promise<void>
  /** Waits until `read` returns something. */
  until<T>(what: string, read: () => Promise<T | undefined>, deadlineMs?: number): Promise<T>
  /** The serial console of a VM, through its launcher's socket. */
  console(vm: VirtualMachine): Promise<Console>
  close(): Promise<void>
}

export interface Console {
  write(text: string): void
  /** Waits until the guest has printed this since the console was opened; dumps the namespace if it does not. */
  hear(text: string): Promise<void>
  /** Types a line until the guest responds, because input is lost while it boots. */
  ask(line: string, answer: string): Promise<void>
  /** Waits until the demo guest responds at its prompt. */
  isUp(): Promise<void>
  close(): void
}

/** Only a failure takes this long. A machine that runs other tests beside this one can be slow. */
const defaultDeadlineMs = 500_000
const setting = (name: string) => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run \`make test\``)
  return value
}

export async function openCluster(): Promise<TestCluster> {
  const [state, kubeconfig, binaries] = [setting('VIRTSET_STATE'), setting('KUBECONFIG'), setting('KUBE_BIN_DIR')]
  const namespace = `test-${randomBytes(4).toString('hex')}`
  const base = [join(binaries, 'kubectl'), '--kubeconfig', kubeconfig, '--cache-dir', join(state, 'kubectl')]
  const kubectl = (...rest: string[]) => run([...base, '-n', namespace, ...rest])
  await kubectl('create', 'namespace', namespace)
  const collection = `/apis/virtset.io/v1alpha1/namespaces/${namespace}/virtualmachines`
  const pathOf = (name: string) => `${collection}/${name}`
  // Tests read VMs again and again, and each kubectl takes a tenth of a second of CPU time.
  const kube = createKubeClient({ access: await kubeconfigAccess({ file: kubeconfig }), userAgent: 'cluster-test' })

  const applyAll = async (items: readonly object[]) => {
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
    await run([...base, '-n', namespace, 'apply', '--server-side', '-f', '-'], { input })
  }
  const cluster: TestCluster = {
    namespace,
    state,
    command: [...base, '-n', namespace],
    kubectl,
    async apply(...objects) {
      const isPreset = (object: object) => 'kind' in object && object.kind === 'VirtualMachinePreset'
      const [presets, others] = [objects.filter(isPreset), objects.filter((object) => !isPreset(object))]
      if (presets.length > 0 && others.length > 0) {
        await applyAll(presets)
        await kubectl('wait', 'vmp', '--all', '--for=condition=Accepted', '--timeout=240s')
        await applyAll(others)
      } else await applyAll(objects)
    },
    async create(object, ...flags) {
      try {
        const input = JSON.stringify(object)
        return { status: 0, output: await run([...base, '-n', namespace, 'create', ...flags, '-f', '-'], { input }) }
      } catch (error) {
        if (error instanceof CommandFailed) return { status: error.status, output: error.output }
        throw error
      }
    },
    async createWith(text, vm) {
      await cluster.until(`a VM with ${text}`, async () => {
        const { status, output } = await cluster.create(vm, '-o', 'json')
        if (status === 0 && output.includes(text)) return true
        const input = JSON.stringify(vm)
        await run([...base, '-n', namespace, 'delete', '--ignore-not-found', '-f', '-'], { input })
        return undefined
      })
    },
    async vm(name) {
      // As while the API server restarts: absent.
      return kube.request('GET', pathOf(name)).catch(() => undefined) as Promise<VirtualMachine | undefined>
    },
    untilVm: (name, what, isWanted, deadlineMs) =>
      cluster.until(
        `VM ${name}: ${what}`,
        async () => {
          const vm = await cluster.vm(name)
          return vm !== undefined && isWanted(vm) ? vm : undefined
        },
        deadlineMs,
      ),
    async untilGone(name, deadlineMs) {
      await cluster.until(`VM ${name} gone`, async () => (await cluster.isGone(name)) || undefined, deadlineMs)
    },
    isGone: (name) => kube.request('GET', pathOf(name)).then(() => false, isNotFound),
    async untilPoweredOff(name) {
      await cluster.untilGone(name)
      const ofVm = `--field-selector=involvedObject.kind=VirtualMachine,involvedObject.name=${name}`
      await cluster.until(`an event that the guest of ${name} powered off`, async () => {
        const messages = await kubectl('get', 'events', ofVm, '-o', 'jsonpath={.items[*].message}')
        return messages.includes('The guest ended: shutdown') ? true : undefined
      })
    },
    async until(what, read, deadlineMs = defaultDeadlineMs) {
      const start = performance.now()
      for (;;) {
        const checkedMs = performance.now()
        const value = await read()
        if (value !== undefined) return value
        const tookMs = performance.now() - checkedMs
        if (performance.now() - start > deadlineMs)
          throw new Error(`not within ${deadlineMs} ms: ${what}\n${await dump(kubectl, namespace)}`)
        await sleep(pauseAfter(tookMs, 100))
      }
    },
    async console(vm) {
      const sockets = await open(join(podDirectory(state, vm), 'volumes/kubernetes.io~empty-dir/sockets'))
      // The path through the kubelet's directory is too long for a socket.
      const socket = await openConsole(`/proc/self/fd/${sockets.fd}/launcher.sock`)
      return listen(socket, sockets, () => dump(kubectl, namespace))
    },
    async close() {
      // Kubernetes deletes it while the next file runs.
      await attempt([...base, 'delete', 'namespace', namespace, '--wait=false'])
      await kube.close()
    },
  }
  // An earlier file may have stopped them: the API server notices a moment later that they are ready again.
  await cluster.until('the webhooks respond', () =>
    kube.request('POST', `${collection}?dryRun=All`, deaf('probe')).then(
      () => true,
      () => undefined,
    ),
  )
  return cluster
}

/** The kubelet's directory for the volumes of a VM's pod. */
export function podDirectory(state: string, { metadata, status }: VirtualMachine): string {
  if (status?.nodeName === undefined || status.podUID === undefined) throw new Error(`${metadata.name} has no node yet`)
  return join(state, 'nodes', status.nodeName, 'kubelet/pods', status.podUID)
}

function listen(socket: Socket, holder: FileHandle, explain: () => Promise<string>): Console {
  let heard = ''
  const waiting = new Set<() => void>()
  socket.setEncoding('latin1').on('data', (text: string) => {
    heard += text
    for (const wake of waiting) wake()
  })
  /** Whether it was heard in time. */
  const isHeard = async (text: string, deadlineMs: number): Promise<boolean> => {
    const timer = AbortSignal.timeout(deadlineMs)
    while (!heard.includes(text)) {
      if (timer.aborted) return false
      await new Promise<void>((resolve) => {
        const wake = () => {
          waiting.delete(wake)
          timer.removeEventListener('abort', wake)
          resolve()
        }
        waiting.add(wake)
        timer.addEventListener('abort', wake)
      })
    }
    return true
  }
  const notHeard = async (text: string) =>
    new Error(`"${text}" was not heard on the console, but: ${JSON.stringify(heard)}\n${await explain()}`)
  const hear = async (text: string): Promise<void> => {
    if (!(await isHeard(text, defaultDeadlineMs))) throw await notHeard(text)
  }
  const ask = async (line: string, answer: string): Promise<void> => {
    for (let left = 40; left > 0; left--) {
      socket.write(`${line}\r`)
      if (await isHeard(answer, 3000)) return
    }
    throw await notHeard(answer)
  }
  return {
    write: (text) => void socket.write(text),
    hear,
    ask,
    isUp: () => ask('help', guestHelp),
    close() {
      socket.destroy()
      void holder.close()
    },
  }
}

/** The processes in a pod's cgroup on this host whose command line `isWanted`. */
export function processesOfPod(podUid: string, isWanted: (command: string) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const isOfPod = readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(podUid)
        return isOfPod && isWanted(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '))
      } catch {
        // It has ended in the meantime.
        return false
      }
    })
    .map(Number)
}

/**
 * A description of a namespace that explains a failure, with what the handlers logged about it, because the logs of a
 * deleted launcher pod are lost, and the path of a file with all details.
 */
async function dump(kubectl: (...rest: string[]) => Promise<string>, namespace: string): Promise<string> {
  const ask = async (...rest: string[]) => {
    try {
      return await kubectl(...rest)
    } catch (error) {
      return String(error)
    }
  }
  const directory = join(setting('VIRTSET_STATE'), 'log/failures')
  mkdirSync(directory, { recursive: true })
  const file = join(directory, `${namespace}.txt`)
  const events = await ask('get', 'events', '--sort-by=.lastTimestamp')
  const objects = await ask('get', 'vm,pods,vmp', '-o', 'wide')
  const logs = (component: string, tail: number) =>
    ask('-n', 'virtset-system', 'logs', '-l', `app.kubernetes.io/component=${component}`, `--tail=${tail}`, '--prefix')
  const handlers = await logs('handler', 2000)
  const parts = [
    objects,
    events,
    await ask('get', 'vm,pods', '-o', 'yaml'),
    await ask('logs', '-l', 'virtset.io/vm-uid', '--tail=200', '--prefix'),
    await logs('webhooks', 100),
    await logs('controller', 100),
    handlers,
  ]
  writeFileSync(file, parts.join('\n---\n'))
  const ofNamespace = handlers.split('\n').filter((line) => line.includes(namespace))
  return [objects, events, ...ofNamespace.slice(-40), `full log: ${file}`].join('\n')
}
