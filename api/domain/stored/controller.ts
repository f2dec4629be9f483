import { type JsonObject, type Normalization, withoutZeros } from './member.ts'

/** What counts of controllers. */
export const controller: Normalization = {
  'devices.controllers': (controller) => storedController(controller),
  'devices.controllers.driver': (driver) => withoutZeros(driver),
}

/** `auto` is the model that a controller without one is given: on x86_64, this. */
const storedController = (controller: JsonObject): JsonObject =>
  controller['type'] === 'scsi' && controller['model'] === 'auto' ? { ...controller, model: 'lsilogic' } : controller
