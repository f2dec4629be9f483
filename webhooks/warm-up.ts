import { createEngine } from './engine.ts'
import { systemClock } from '../runtime/clock.ts'
import { cachesWithout } from './caches.ts'
import { answerReview, parseReview } from './review.ts'
import { createReviewers } from './reviewers.ts'

/** The first review of a process takes tens of milliseconds, the hundredth one; all of them 0.2 s of CPU. */
const atOnce = 100
/** The five hundredth takes two thirds of that: code that is run often is compiled better. */
const inAll = 500

/**
 * Reviews some VMs of nobody's, so that the first of somebody's need not wait for code that is compiled and schemas that are put together: some now, the
 * rest one by one between whatever else there is to do.
 * @param onWarm told when all of it is done
 */
export function warmUp(onWarm = () => {}): void {
  const review = reviewOfNobody()
  for (let number = 0; number < atOnce; number++) review(number)
  const goOn = (number: number): void => {
    review(number)
    if (number < inAll) setImmediate(goOn, number + 1)
    else onWarm()
  }
  setImmediate(goOn, atOnce)
}

function reviewOfNobody(): (number: number) => void {
  const { mutate } = createReviewers(
    createEngine(cachesWithout(systemClock), () => Promise.resolve(false)),
    { controllers: [] },
  )
  return (number) => {
    const source = { protocol: 'nbd', name: `${number}`, host: { name: 'disks' } }
    const devices = {
      disks: [{ type: 'network', device: 'disk', source, target: { dev: 'vda' } }],
      ...(number % 2 === 0 ? {} : { interfaces: [{ type: 'user' }], serials: [{ type: 'pty' }] }),
    }
    const machine = number % 3 === 0 ? { machine: 'q35' } : {}
    const memory = { unit: 'MiB', value: 64 }
    const domain = { type: 'qemu', memory, os: { type: { os: 'hvm', ...machine } }, devices }
    const metadata = { name: 'warm-up', namespace: 'default' }
    const object = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata, spec: { domain } }
    const kind = { kind: 'VirtualMachine' }
    const request = { uid: `${number}`, kind, operation: 'CREATE', namespace: 'default', object }
    const parsed = parseReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
    if (!('review' in parsed)) throw new Error(parsed.problem)
    const verdict = mutate(parsed.review)
    if (verdict instanceof Promise || !verdict.allowed) throw new Error('a VM of nobody’s was not simply let in')
    answerReview(parsed.review, verdict)
  }
}
