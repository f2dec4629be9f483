import { readOwnCases } from './cases.ts'

/**
 * Cases of tests/qemuxmlconfdata that libvirt 11.3 runs with the newest QEMU on x86_64: 482 that it stores, 98 that it
 * refuses.
 */
const outsideCases = 580

/** Reports at the end of a run of unit tests which cases it did not compare with libvirt's results. */
export default function setup(): () => void {
  return () => {
    if (process.env['LIBVIRT_CORPUS'] !== undefined) return
    process.stdout.write(
      `not compared with libvirt: ${outsideCases} cases of its own tests, because LIBVIRT_CORPUS is not set (see test/corpus/corpus.ts); compared: ${readOwnCases().length} cases of test/corpus/cases\n`,
    )
  }
}
