import { systemClock } from '../../runtime/clock.ts'
import { cachesWithout } from './caches.ts'
import { createEngine } from './engine.ts'
import { createHandlers } from './handler.ts'
import { admissionReviewOf, parseAdmissionReview } from './request.ts'

/** The first request of a process takes tens of milliseconds; a hundred requests take 0.2 s of CPU. */
const atOnce = 100
/** The five hundredth request takes two thirds as long as the hundredth, because V8 optimizes hot code. */
const inAll = 500

/**
 * Handles requests for sample VMs, so that the first real requests do not wait for code to be compiled and schemas to
 * be built. Handles some immediately, the rest one by one between other work.
 */
export function warmUp(handle: (number: number) => void = sampleHandler()): void {
  for (let number = 0; number < atOnce; number++) handle(number)
  const next = (number: number): void => {
    if (number === inAll) return
    handle(number)
    setImmediate(next, number + 1)
  }
  setImmediate(next, atOnce)
}

/**
 * Returns a function that handles the sample VM with a number. It throws if the VM is not admitted synchronously,
 * because a refusal would warm up other code.
 */
export function sampleHandler(): (number: number) => void {
  const { mutate } = createHandlers(
    createEngine(cachesWithout(systemClock), () => Promise.resolve(false)),
    { controllers: [] },
  )
  return (number) => {
    const kind = { kind: 'VirtualMachine' }
    const request = { uid: `${number}`, kind, operation: 'CREATE', namespace: 'default', object: sampleVm(number) }
    const parsed = parseAdmissionReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
    if (!('request' in parsed)) throw new Error(parsed.problem)
    const result = mutate(parsed.request)
    if (result instanceof Promise || !result.allowed) throw new Error('the sample VM was not admitted at once')
    admissionReviewOf(parsed.request, result)
  }
}

/** Every second VM has a network interface and a console, every third one sets a machine type. */
export function sampleVm(number: number): object {
  const source = { protocol: 'nbd', name: `${number}`, host: { name: 'disks' } }
  const devices = {
    disks: [{ type: 'network', device: 'disk', source, target: { dev: 'vda' } }],
    ...(number % 2 === 0 ? {} : { interfaces: [{ type: 'user' }], serials: [{ type: 'pty' }] }),
  }
  const machine = number % 3 === 0 ? { machine: 'q35' } : {}
  const memory = { unit: 'MiB', value: 64 }
  const domain = { type: 'qemu', memory, os: { type: { os: 'hvm', ...machine } }, devices }
  const metadata = { name: 'warm-up', namespace: 'default' }
  return { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata, spec: { domain } }
}
