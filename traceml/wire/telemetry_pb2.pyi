from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HelloRequest(_message.Message):
    __slots__ = ("protocol", "session", "identity")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    session: str
    identity: Identity
    def __init__(self, protocol: _Optional[int] = ..., session: _Optional[str] = ..., identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("protocol",)
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    def __init__(self, protocol: _Optional[int] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("rank", "local_rank", "world_size", "local_world_size", "node_rank", "attempt", "host", "pid", "device", "gpu_uuid", "strategy", "fingerprint", "torch", "python", "traceml", "memory_limit_bytes")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    GPU_UUID_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    TORCH_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    TRACEML_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    node_rank: int
    attempt: int
    host: str
    pid: int
    device: str
    gpu_uuid: str
    strategy: str
    fingerprint: str
    torch: str
    python: str
    traceml: str
    memory_limit_bytes: int
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., world_size: _Optional[int] = ..., local_world_size: _Optional[int] = ..., node_rank: _Optional[int] = ..., attempt: _Optional[int] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., device: _Optional[str] = ..., gpu_uuid: _Optional[str] = ..., strategy: _Optional[str] = ..., fingerprint: _Optional[str] = ..., torch: _Optional[str] = ..., python: _Optional[str] = ..., traceml: _Optional[str] = ..., memory_limit_bytes: _Optional[int] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("session", "heartbeat", "batch")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    session: str
    heartbeat: Heartbeat
    batch: Batch
    def __init__(self, session: _Optional[str] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("acknowledged",)
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: int
    def __init__(self, acknowledged: _Optional[int] = ...) -> None: ...

class GoodbyeRequest(_message.Message):
    __slots__ = ("session", "heartbeat")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    session: str
    heartbeat: Heartbeat
    def __init__(self, session: _Optional[str] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class GoodbyeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("session", "flat")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FLAT_FIELD_NUMBER: _ClassVar[int]
    session: str
    flat: bool
    def __init__(self, session: _Optional[str] = ..., flat: bool = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("step", "phase", "since_ns", "cpu_seconds", "resident_bytes", "dropped_ring", "dropped_backlog", "faults", "notes", "tags", "allocation_retries", "device_phase")
    STEP_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_RING_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BACKLOG_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_RETRIES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_PHASE_FIELD_NUMBER: _ClassVar[int]
    step: int
    phase: str
    since_ns: int
    cpu_seconds: float
    resident_bytes: int
    dropped_ring: int
    dropped_backlog: int
    faults: int
    notes: _containers.RepeatedScalarFieldContainer[str]
    tags: int
    allocation_retries: int
    device_phase: str
    def __init__(self, step: _Optional[int] = ..., phase: _Optional[str] = ..., since_ns: _Optional[int] = ..., cpu_seconds: _Optional[float] = ..., resident_bytes: _Optional[int] = ..., dropped_ring: _Optional[int] = ..., dropped_backlog: _Optional[int] = ..., faults: _Optional[int] = ..., notes: _Optional[_Iterable[str]] = ..., tags: _Optional[int] = ..., allocation_retries: _Optional[int] = ..., device_phase: _Optional[str] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("sequence", "records", "step", "end_ns", "tags", "step_ns", "dataloader_ns", "h2d_ns", "forward_ns", "backward_ns", "optimizer_ns", "collective_wait_ns", "other_ns", "overhead_ns", "resident_bytes", "samples", "elements", "preceding", "allocated_bytes", "reserved_bytes", "dataloader_end_ns", "h2d_end_ns", "forward_end_ns", "backward_end_ns", "optimizer_end_ns", "forward_wait_ns", "optimizer_wait_ns", "other_wait_ns", "device_end_ns", "device_step_ns", "device_dataloader_ns", "device_h2d_ns", "device_forward_ns", "device_backward_ns", "device_optimizer_ns", "device_collective_wait_ns", "device_other_ns", "device_dataloader_end_ns", "device_h2d_end_ns", "device_forward_end_ns", "device_backward_end_ns", "device_optimizer_end_ns", "device_forward_wait_ns", "device_optimizer_wait_ns", "device_other_wait_ns", "device_idle_ns", "floor_bytes", "allocation_retries")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    STEP_NS_FIELD_NUMBER: _ClassVar[int]
    DATALOADER_NS_FIELD_NUMBER: _ClassVar[int]
    H2D_NS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_NS_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_NS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_NS_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    OTHER_NS_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_NS_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    PRECEDING_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATALOADER_END_NS_FIELD_NUMBER: _ClassVar[int]
    H2D_END_NS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_END_NS_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_END_NS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_END_NS_FIELD_NUMBER: _ClassVar[int]
    FORWARD_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    OTHER_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_STEP_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_DATALOADER_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_H2D_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FORWARD_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BACKWARD_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OPTIMIZER_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COLLECTIVE_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OTHER_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_DATALOADER_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_H2D_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FORWARD_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_BACKWARD_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OPTIMIZER_END_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FORWARD_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OPTIMIZER_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OTHER_WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDLE_NS_FIELD_NUMBER: _ClassVar[int]
    FLOOR_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_RETRIES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    records: int
    step: bytes
    end_ns: bytes
    tags: bytes
    step_ns: bytes
    dataloader_ns: bytes
    h2d_ns: bytes
    forward_ns: bytes
    backward_ns: bytes
    optimizer_ns: bytes
    collective_wait_ns: bytes
    other_ns: bytes
    overhead_ns: bytes
    resident_bytes: bytes
    samples: bytes
    elements: bytes
    preceding: int
    allocated_bytes: bytes
    reserved_bytes: bytes
    dataloader_end_ns: bytes
    h2d_end_ns: bytes
    forward_end_ns: bytes
    backward_end_ns: bytes
    optimizer_end_ns: bytes
    forward_wait_ns: bytes
    optimizer_wait_ns: bytes
    other_wait_ns: bytes
    device_end_ns: bytes
    device_step_ns: bytes
    device_dataloader_ns: bytes
    device_h2d_ns: bytes
    device_forward_ns: bytes
    device_backward_ns: bytes
    device_optimizer_ns: bytes
    device_collective_wait_ns: bytes
    device_other_ns: bytes
    device_dataloader_end_ns: bytes
    device_h2d_end_ns: bytes
    device_forward_end_ns: bytes
    device_backward_end_ns: bytes
    device_optimizer_end_ns: bytes
    device_forward_wait_ns: bytes
    device_optimizer_wait_ns: bytes
    device_other_wait_ns: bytes
    device_idle_ns: bytes
    floor_bytes: bytes
    allocation_retries: bytes
    def __init__(self, sequence: _Optional[int] = ..., records: _Optional[int] = ..., step: _Optional[bytes] = ..., end_ns: _Optional[bytes] = ..., tags: _Optional[bytes] = ..., step_ns: _Optional[bytes] = ..., dataloader_ns: _Optional[bytes] = ..., h2d_ns: _Optional[bytes] = ..., forward_ns: _Optional[bytes] = ..., backward_ns: _Optional[bytes] = ..., optimizer_ns: _Optional[bytes] = ..., collective_wait_ns: _Optional[bytes] = ..., other_ns: _Optional[bytes] = ..., overhead_ns: _Optional[bytes] = ..., resident_bytes: _Optional[bytes] = ..., samples: _Optional[bytes] = ..., elements: _Optional[bytes] = ..., preceding: _Optional[int] = ..., allocated_bytes: _Optional[bytes] = ..., reserved_bytes: _Optional[bytes] = ..., dataloader_end_ns: _Optional[bytes] = ..., h2d_end_ns: _Optional[bytes] = ..., forward_end_ns: _Optional[bytes] = ..., backward_end_ns: _Optional[bytes] = ..., optimizer_end_ns: _Optional[bytes] = ..., forward_wait_ns: _Optional[bytes] = ..., optimizer_wait_ns: _Optional[bytes] = ..., other_wait_ns: _Optional[bytes] = ..., device_end_ns: _Optional[bytes] = ..., device_step_ns: _Optional[bytes] = ..., device_dataloader_ns: _Optional[bytes] = ..., device_h2d_ns: _Optional[bytes] = ..., device_forward_ns: _Optional[bytes] = ..., device_backward_ns: _Optional[bytes] = ..., device_optimizer_ns: _Optional[bytes] = ..., device_collective_wait_ns: _Optional[bytes] = ..., device_other_ns: _Optional[bytes] = ..., device_dataloader_end_ns: _Optional[bytes] = ..., device_h2d_end_ns: _Optional[bytes] = ..., device_forward_end_ns: _Optional[bytes] = ..., device_backward_end_ns: _Optional[bytes] = ..., device_optimizer_end_ns: _Optional[bytes] = ..., device_forward_wait_ns: _Optional[bytes] = ..., device_optimizer_wait_ns: _Optional[bytes] = ..., device_other_wait_ns: _Optional[bytes] = ..., device_idle_ns: _Optional[bytes] = ..., floor_bytes: _Optional[bytes] = ..., allocation_retries: _Optional[bytes] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("at", "hello", "push", "goodbye", "started", "ended", "excused", "sampled", "diagnosed")
    AT_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    EXCUSED_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSED_FIELD_NUMBER: _ClassVar[int]
    at: float
    hello: HelloRequest
    push: PushRequest
    goodbye: GoodbyeRequest
    started: Started
    ended: Ended
    excused: Excused
    sampled: Sampled
    diagnosed: Diagnosed
    def __init__(self, at: _Optional[float] = ..., hello: _Optional[_Union[HelloRequest, _Mapping]] = ..., push: _Optional[_Union[PushRequest, _Mapping]] = ..., goodbye: _Optional[_Union[GoodbyeRequest, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., excused: _Optional[_Union[Excused, _Mapping]] = ..., sampled: _Optional[_Union[Sampled, _Mapping]] = ..., diagnosed: _Optional[_Union[Diagnosed, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("restarts", "policy")
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    restarts: int
    policy: str
    def __init__(self, restarts: _Optional[int] = ..., policy: _Optional[str] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("state", "exit_code")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    state: str
    exit_code: int
    def __init__(self, state: _Optional[str] = ..., exit_code: _Optional[int] = ...) -> None: ...

class Excused(_message.Message):
    __slots__ = ("rank",)
    RANK_FIELD_NUMBER: _ClassVar[int]
    rank: int
    def __init__(self, rank: _Optional[int] = ...) -> None: ...

class Diagnosed(_message.Message):
    __slots__ = ("state", "severity", "rank", "phase")
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    state: str
    severity: str
    rank: int
    phase: str
    def __init__(self, state: _Optional[str] = ..., severity: _Optional[str] = ..., rank: _Optional[int] = ..., phase: _Optional[str] = ...) -> None: ...

class Sampled(_message.Message):
    __slots__ = ("cpu_utilization_ratio", "memory_used_bytes", "memory_size_bytes", "gpus", "gpu_failures")
    CPU_UTILIZATION_RATIO_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_FAILURES_FIELD_NUMBER: _ClassVar[int]
    cpu_utilization_ratio: float
    memory_used_bytes: float
    memory_size_bytes: float
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    gpu_failures: int
    def __init__(self, cpu_utilization_ratio: _Optional[float] = ..., memory_used_bytes: _Optional[float] = ..., memory_size_bytes: _Optional[float] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., gpu_failures: _Optional[int] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("index", "uuid", "utilization_ratio", "memory_used_bytes", "memory_size_bytes", "temperature_celsius", "power_watts", "power_limit_watts", "throttled", "sm_clock_hertz", "sm_clock_max_hertz", "ecc_corrected", "ecc_uncorrected", "xids")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    UTILIZATION_RATIO_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    POWER_WATTS_FIELD_NUMBER: _ClassVar[int]
    POWER_LIMIT_WATTS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    SM_CLOCK_HERTZ_FIELD_NUMBER: _ClassVar[int]
    SM_CLOCK_MAX_HERTZ_FIELD_NUMBER: _ClassVar[int]
    ECC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    ECC_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    utilization_ratio: float
    memory_used_bytes: float
    memory_size_bytes: float
    temperature_celsius: float
    power_watts: float
    power_limit_watts: float
    throttled: _containers.RepeatedScalarFieldContainer[str]
    sm_clock_hertz: float
    sm_clock_max_hertz: float
    ecc_corrected: int
    ecc_uncorrected: int
    xids: int
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., utilization_ratio: _Optional[float] = ..., memory_used_bytes: _Optional[float] = ..., memory_size_bytes: _Optional[float] = ..., temperature_celsius: _Optional[float] = ..., power_watts: _Optional[float] = ..., power_limit_watts: _Optional[float] = ..., throttled: _Optional[_Iterable[str]] = ..., sm_clock_hertz: _Optional[float] = ..., sm_clock_max_hertz: _Optional[float] = ..., ecc_corrected: _Optional[int] = ..., ecc_uncorrected: _Optional[int] = ..., xids: _Optional[int] = ...) -> None: ...
