import { AttachedVolumes } from '../launcher/attached-volumes.ts'
import { createLogger } from '../runtime/log.ts'
import { fakeClock } from './fake-clock.ts'

/** For a launcher whose guest is attached no volumes. */
export const noAttachedVolumes = new AttachedVolumes({
  attach: () => Promise.reject(new Error('attaches a volume')),
  detach: () => Promise.reject(new Error('detaches a volume')),
  hasDevice: () => Promise.resolve(false),
  isInQemu: () => Promise.resolve(false),
  readMounts: () => Promise.resolve(undefined),
  sockets: {
    pathOf: (name) => name,
    connect: () => Promise.resolve(false),
    remove: () => Promise.resolve(),
    forget: () => Promise.resolve(),
  },
  clock: fakeClock(),
  log: createLogger({ process: 'test', level: 'silent' }),
  onChange: () => {},
})
