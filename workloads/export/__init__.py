"""Export of the zoo's files: the networks of the papers, as ONNX graphs without their weights.

    python -m dsascape.workloads.export [NAME ...] [--out DIR] [--list]

It needs packages that the rest of the project does not. Torch comes first and in exactly this version, and torchvision
and timm must not pull another one in::

    pip install torch==2.13.0
    pip install --no-deps torchvision==0.28.0 timm==1.0.31
    pip install onnx onnxscript onnxruntime transformers==5.23.0 pillow safetensors pyyaml tqdm requests

The raw text models come from an older transformers, which needs a folder of its own::

    pip install --target hf430 --no-deps transformers==4.30.2 tokenizers==0.13.3 huggingface_hub==0.16.4
    PYTHONPATH=hf430 python -m dsascape.workloads.export bert-base-raw

Weights are random (seeded) and are discarded: only the structure and the shapes of a network are
kept.
"""
