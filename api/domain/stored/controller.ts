import { type JsonObject, type Normalization, withoutZeros } from './member.ts'

/** What libvirt stores for controllers. */
export const controller: Normalization = {
  'devices.controllers': (controller) => storedController(controller),
  'devices.controllers.driver': (driver) => withoutZeros(driver),
}

/** On x86_64, libvirt resolves the model `auto` to this one. */
const storedController = (controller: JsonObject): JsonObject =>
  controller['type'] === 'scsi' && controller['model'] === 'auto' ? { ...controller, model: 'lsilogic' } : controller
