import { claimedCapacity, prepareAttachedClaim } from '../attached-claim.ts'

/** Run by images/launcher/serve-volume before it serves a claim that is a file system. */
const [directory = ''] = process.argv.slice(2)
try {
  const isReadOnly = (process.env['VIRTSET_READ_ONLY'] ?? '') !== ''
  await prepareAttachedClaim(directory, { isReadOnly, capacity: claimedCapacity(process.env['VIRTSET_CAPACITY']) })
} catch (error) {
  // The end of the log is the message that the status of the VM shows.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
