import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import { createAuthorReviews } from '../../webhooks/objects/author-reviews.ts'
import {
  runConfigurationController,
  type ConfigurationControllerOptions,
} from '../../webhooks/objects/configuration-controller.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'
import type { TestApiServer } from './apiserver.ts'
import { runKubectl } from './kubectl.ts'
import { system } from './service.ts'
import { startWebhooks, type TestWebhooks } from './webhooks.ts'

export interface ObjectWebhooks extends TestWebhooks {
  /** Those of the running configuration controller. */
  readonly options: ConfigurationControllerOptions
}

/** The webhooks with the overlay object-presets: they register themselves for the kinds of PresetTargets. */
export async function startObjectWebhooks(
  api: TestApiServer,
  accounts: readonly string[] = [],
): Promise<ObjectWebhooks> {
  const webhooks = await startWebhooks(api, (caches, kube) =>
    createEngine(caches, createMayAccess(createTenantRequests(kube), systemClock)),
  )
  await runKubectl(api, '', 'apply', '-f', 'manifests/overlays/object-presets/configuration.yaml')
  const { kube, objects } = webhooks
  const log = createLogger({ process: 'webhooks', level: 'silent' })
  const reviews = createAuthorReviews(createMayAccess(createTenantRequests(kube), systemClock), log, systemClock)
  const exclusions = { namespaces: ['kube-system', system], accounts }
  const options = { kube, objects, exclusions, reviews, log, clock: systemClock }
  const stopping = new AbortController()
  const configuring = runConfigurationController(options, stopping.signal)
  return {
    ...webhooks,
    options,
    async stop() {
      stopping.abort()
      await configuring
      await webhooks.stop()
    },
  }
}
