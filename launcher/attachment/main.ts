import { checkAttachedDevice, claimedCapacity, prepareAttachedClaim } from '../attached-claim.ts'
import { kindOf } from '../path-kind.ts'

/** Run by images/launcher/serve-volume before it serves a claim: a directory or a block device. */
const [path = ''] = process.argv.slice(2)
try {
  const isReadOnly = (process.env['VIRTSET_READ_ONLY'] ?? '') !== ''
  const capacity = claimedCapacity(process.env['VIRTSET_CAPACITY'])
  if ((await kindOf(path)) === 'block') await checkAttachedDevice(path)
  else await prepareAttachedClaim(path, { isReadOnly, capacity })
} catch (error) {
  // The end of the log is the message that the status of the VM shows.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
