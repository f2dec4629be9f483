import { LRUCache } from 'lru-cache'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'

type Vm = Persisted<VirtualMachine>

/**
 * Whole VMs that await their start, in a bounded amount of memory. A pass needs the whole VM until the VM has its pod,
 * and several passes follow each other within a second. A VM that is not stored any more is read from the API server.
 */
export interface StartingVms {
  put(vm: Vm): void
  /** The whole of the same version of a VM. */
  get(vm: Vm): Vm | undefined
}

/** Room for 2,000 VMs of usual size: more than start at once. */
const defaultMaxCharacters = 16 * 1024 * 1024
/** One VM can have a megabyte, and must not replace hundreds. */
const share = 256

const keyOf = ({ metadata }: Vm): string => `${metadata.uid} ${metadata.resourceVersion}`

/** Values are JSON text, which is compact and has a known size. */
export function createStartingVms(maxCharacters = defaultMaxCharacters): StartingVms {
  const texts = new LRUCache<string, string>({
    maxSize: maxCharacters,
    maxEntrySize: Math.ceil(maxCharacters / share),
    sizeCalculation: (text) => text.length,
  })
  return {
    put: (vm) => void texts.set(keyOf(vm), JSON.stringify(vm)),
    get(vm) {
      const text = texts.get(keyOf(vm))
      return text === undefined ? undefined : (JSON.parse(text) as Vm)
    },
  }
}
