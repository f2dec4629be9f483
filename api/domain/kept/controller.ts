import { type JsonObject, type Kept, withoutZeros } from './member.ts'

/** What counts of controllers. */
export const controller: Kept = {
  'devices.controllers': (controller) => keptController(controller),
  'devices.controllers.driver': (driver) => withoutZeros(driver),
}

/** `auto` is the model that a controller without one is given: on x86_64, this. */
const keptController = (controller: JsonObject): JsonObject =>
  controller['type'] === 'scsi' && controller['model'] === 'auto' ? { ...controller, model: 'lsilogic' } : controller
