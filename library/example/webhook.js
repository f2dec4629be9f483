// A mutating webhook that completes Gadgets with the presets of a folder. Calls of the API server need a certificate.
import { readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:https'
import { createPresets, kindsIn, refusalText, statusCauses } from 'virtset-presets'

const json = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
const read = kindsIn(json('crd.json')).get('Gadget of example.com/v1')()
if ('causes' in read) throw new Error(refusalText('CustomResourceDefinition', 'gadgets', read.causes))

const presets = createPresets(read.kind)
for (const name of readdirSync(new URL('presets', import.meta.url))) {
  const { causes, warnings } = presets.set(json(`presets/${name}`))
  if (causes.length > 0) console.error(refusalText('preset', name, causes))
  for (const warning of warnings) console.error(`${name}: ${warning}`)
}

function review(request) {
  const { uid, name, namespace } = request
  const { object, causes, warnings } = presets.complete(request.object, { namespace: { name: namespace }, request })
  if (causes.length > 0) {
    const details = { kind: 'Gadget', name, causes: statusCauses(causes) }
    const status = { code: 422, reason: 'Invalid', message: refusalText('Gadget', name, causes), details }
    return { uid, allowed: false, warnings, status }
  }
  // To add a member that exists replaces it.
  const operations = Object.entries(object).map(([key, value]) => ({ op: 'add', path: `/${key}`, value }))
  const patch = Buffer.from(JSON.stringify(operations)).toString('base64')
  return { uid, allowed: true, warnings, patchType: 'JSONPatch', patch }
}

const [cert, key] = ['tls.crt', 'tls.key'].map((file) => readFileSync(new URL(file, import.meta.url)))
async function answer(request, response) {
  const { apiVersion, kind, request: asked } = JSON.parse(Buffer.concat(await request.toArray()).toString())
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ apiVersion, kind, response: review(asked) }))
}

createServer({ cert, key }, (request, response) => {
  answer(request, response).catch((error) => {
    console.error(error)
    response.writeHead(400).end()
  })
}).listen(Number(process.argv[2] ?? 8443), () => console.log('ready'))
