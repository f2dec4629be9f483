/** A field of an object that a chart value sets. */
export interface Place {
  /** Kind and name: `Deployment virtset-webhooks`. */
  readonly object: string
  /** In kustomize's form: `spec.template.spec.containers.[name=webhooks].resources`. */
  readonly path: string
  /** The manifests leave the field unset, and so does the chart if the value is empty. */
  readonly isOptional?: boolean
  /** The template expression for the field. If absent, the value itself. */
  readonly expression?: string
}

export interface ChartValue {
  /** The name that users set: `webhooks.replicas`. */
  readonly name: string
  /** One sentence. */
  readonly description: string
  readonly places: readonly Place[]
  /** If absent, the value in the first place of the manifests. */
  readonly default?: unknown
  /** Extracts the default from the value in the manifests, if it is only a part of that. */
  readonly read?: (found: string) => unknown
}

export const expressionOf = ({ name }: ChartValue, { expression }: Place) => expression ?? `toJson .Values.${name}`

const pod = 'spec.template.spec'
const workloads = {
  webhooks: 'Deployment virtset-webhooks',
  controller: 'Deployment virtset-controller',
  handler: 'DaemonSet virtset-handler',
  profile: 'DaemonSet virtset-profile',
  network: 'DaemonSet virtset-network',
}
const container = (name: string) => `${pod}.containers.[name=${name}]`

const deployment = (name: 'webhooks' | 'controller'): ChartValue[] => {
  const object = workloads[name]
  return [
    { name: `${name}.replicas`, description: 'Number of replicas.', places: [{ object, path: 'spec.replicas' }] },
    {
      name: `${name}.resources`,
      description: 'Resources of the container. Less CPU makes it lose its lease or its probes when nodes are busy.',
      places: [{ object, path: `${container(name)}.resources` }],
    },
    {
      name: `${name}.nodeSelector`,
      description: 'Labels of the nodes that it runs on.',
      places: [{ object, path: `${pod}.nodeSelector`, isOptional: true }],
      default: {},
    },
    {
      name: `${name}.tolerations`,
      description: 'Taints that it tolerates.',
      places: [{ object, path: `${pod}.tolerations`, isOptional: true }],
      default: [],
    },
    {
      name: `${name}.priorityClassName`,
      description: 'Priority class of the pods.',
      places: [{ object, path: `${pod}.priorityClassName` }],
    },
  ]
}

/** The handler runs on the nodes that can run VMs, and so do the pods that query their libvirt and run plugins. */
const onNodes = (field: string): Place[] =>
  [workloads.handler, workloads.profile, workloads.network].map((object) => ({ object, path: `${pod}.${field}` }))

const image = (name: string) => `printf "%s/%s" .Values.images.prefix .Values.images.${name} | toJson`
const afterLastSlash = (reference: string) => reference.slice(reference.lastIndexOf('/') + 1)

/** The values that users of the chart can set. Everything else is as in `manifests/`. */
export const chartValues: readonly ChartValue[] = [
  {
    name: 'images.prefix',
    description: 'Registry and path of the images, without a slash at the end.',
    places: [{ object: workloads.webhooks, path: `${container('webhooks')}.image`, expression: image('virtset') }],
    read: (reference) => reference.slice(0, reference.lastIndexOf('/')),
  },
  {
    name: 'images.virtset',
    description: 'Image of webhooks, controller, handler and network agent below the prefix, by tag or digest.',
    places: [
      { object: workloads.controller, path: `${container('controller')}.image`, expression: image('virtset') },
      { object: workloads.handler, path: `${container('handler')}.image`, expression: image('virtset') },
      { object: workloads.network, path: `${container('network')}.image`, expression: image('virtset') },
    ],
    read: afterLastSlash,
  },
  {
    name: 'images.launcher',
    description: 'Image that VMs run in, below the prefix, by tag or digest.',
    places: [
      { object: workloads.profile, path: `${container('profile')}.image`, expression: image('launcher') },
      {
        object: workloads.profile,
        path: `${pod}.initContainers.[name=emulation].image`,
        expression: image('launcher'),
      },
      {
        object: workloads.controller,
        path: `${container('controller')}.env.[name=LAUNCHER_IMAGE].value`,
        expression: image('launcher'),
      },
      // A CEL expression: a string within a string.
      {
        object: 'ValidatingAdmissionPolicy virtset-controller-pods',
        path: 'spec.variables.[name=image].expression',
        expression: `${image('launcher')} | toJson`,
      },
    ],
    read: afterLastSlash,
  },
  {
    name: 'imagePullSecrets',
    description:
      'Secrets in virtset-system for a private registry. VMs pull the launcher image with the default account of their own namespace.',
    places: Object.values(workloads).map((object) => ({ object, path: `${pod}.imagePullSecrets`, isOptional: true })),
    default: [],
  },
  ...deployment('webhooks'),
  ...deployment('controller'),
  {
    name: 'controller.shareCapabilities',
    description: 'Whether profiles of equal nodes share their capabilities. For clusters of more than about 200 nodes.',
    places: [
      {
        object: workloads.controller,
        path: `${container('controller')}.env.[name=SHARE_CAPABILITIES].value`,
        expression: 'toString .Values.controller.shareCapabilities | toJson',
      },
    ],
    default: false,
  },
  {
    name: 'handler.resources',
    description: 'Resources of the container.',
    places: [{ object: workloads.handler, path: `${container('handler')}.resources` }],
  },
  {
    name: 'handler.nodeSelector',
    description:
      'Labels of the nodes that can run VMs. Helm merges it into the default; set a label to null to drop it.',
    places: onNodes('nodeSelector'),
  },
  {
    name: 'handler.tolerations',
    description: 'Taints that the handler and the profile pod tolerate. They must run wherever a VM can.',
    places: onNodes('tolerations'),
  },
  {
    name: 'handler.kubeletRoot',
    description: 'Root directory of the kubelet on the nodes.',
    places: [
      { object: workloads.handler, path: `${container('handler')}.env.[name=KUBELET_ROOT].value` },
      {
        object: workloads.handler,
        path: `${container('handler')}.volumeMounts.[name=pods].mountPath`,
        expression: 'printf "%s/pods" .Values.handler.kubeletRoot | toJson',
      },
      {
        object: workloads.handler,
        path: `${pod}.volumes.[name=pods].hostPath.path`,
        expression: 'printf "%s/pods" .Values.handler.kubeletRoot | toJson',
      },
    ],
  },
  {
    name: 'handler.deviceCount',
    description: 'Containers of a node that can have each device, such as /dev/kvm, at once: 1 to 10000.',
    places: [
      {
        object: workloads.handler,
        path: `${container('handler')}.env.[name=DEVICE_COUNT].value`,
        expression: 'toString .Values.handler.deviceCount | toJson',
      },
    ],
    default: 1000,
  },
  {
    name: 'certManager.enabled',
    description: 'Use a certificate of cert-manager, which must be installed. Otherwise the webhooks issue their own.',
    places: [],
    default: false,
  },
  {
    name: 'certManager.issuerRef',
    description: 'Issuer of the certificate. The default is an authority that the chart creates.',
    places: [{ object: 'Certificate virtset-webhooks', path: 'spec.issuerRef' }],
  },
  {
    name: 'monitoring.enabled',
    description: 'Create a ServiceMonitor, alert rules and a Grafana dashboard, for the Prometheus operator.',
    places: [],
    default: false,
  },
  {
    name: 'monitoring.prometheusNamespace',
    description: 'Namespace that Prometheus runs in.',
    places: [
      {
        object: 'NetworkPolicy virtset-metrics',
        path: 'spec.ingress.0.from.0.namespaceSelector.matchLabels',
        expression: 'dict "kubernetes.io/metadata.name" .Values.monitoring.prometheusNamespace | toJson',
      },
    ],
    default: 'monitoring',
  },
  {
    name: 'objectPresets.enabled',
    description: 'Apply presets to objects of other APIs. The webhooks can then register themselves for any resource.',
    places: [],
    default: false,
  },
  {
    name: 'networkPlugins.enabled',
    description:
      'Run network plugins, which create tap devices for VMs. Their agent is as powerful as root on its node.',
    places: [],
    default: false,
  },
  {
    name: 'namespace.create',
    description: 'Create the namespace virtset-system.',
    places: [],
    default: true,
  },
  {
    name: 'crds.install',
    description: 'Install and upgrade the CRDs. Uninstalling always keeps them.',
    places: [],
    default: true,
  },
]
